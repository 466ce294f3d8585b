"""Write the rendered files of a run into its folder."""

from __future__ import annotations

from pathlib import Path

from harness.errors import RunUnwritable
from harness.record.folder import write_atomically
from harness.record.run import Run
from reports.render import html, markdown
from reports.summary import Summary


def write(run: Run | Summary, against: Run | Summary | None = None) -> Path:
    """Write ``report.md`` and ``report.html`` into the run's folder, each whole or not at all.

    Args:
        run: what they show.
        against: another run, which its models are held against.

    Returns:
        Absolute path of the HTML page.

    Raises:
        RunUnwritable: the folder or the disk refuses.
    """
    found = Summary.of(run)
    run = found.run
    page = run.path / "report.html"
    old = None if against is None else Summary.of(against)
    files = {run.path / "report.md": markdown.render(found, old), page: html.render(found, old)}
    try:
        for file, content in files.items():
            # A lone surrogate may have come in with a path; everything else is replaced already.
            write_atomically(file, content.encode("utf-8", "replace"))
    except OSError as error:
        raise RunUnwritable(f"cannot write the report into {run.path}: {error.strerror}") from error
    return page.resolve()
