"""Write the rendered files of a run into its folder."""

from __future__ import annotations

from pathlib import Path

from harness.errors import RunUnwritable
from harness.record.folder import write_atomically
from harness.record.run import Run
from reports.render import html, markdown
from reports.summary import RunSummary


def write(run: Run | RunSummary, against: Run | RunSummary | None = None) -> Path:
    """Write ``report.md`` and ``report.html`` into the run's folder, each whole or not at all.

    Args:
        run: the run to render.
        against: another run with which the models are compared.

    Returns:
        Absolute path of the HTML page.

    Raises:
        RunUnwritable: the folder or the disk refuses.
    """
    found = RunSummary.from_run(run)
    run = found.run
    page = run.path / "report.html"
    old = None if against is None else RunSummary.from_run(against)
    files = {run.path / "report.md": markdown.render(found, old), page: html.render(found, old)}
    try:
        for file, content in files.items():
            # A path may contain lone surrogates; in other text they are replaced already.
            write_atomically(file, content.encode("utf-8", "replace"))
    except OSError as error:
        raise RunUnwritable(f"cannot write the report into {run.path}: {error.strerror}") from error
    return page.resolve()
