"""Write the rendered files of a run into its folder."""

from __future__ import annotations

from pathlib import Path

from harness.errors import RunUnwritable
from harness.run import Run
from reports import html, markdown


def write(run: Run) -> Path:
    """Write ``report.md`` and ``report.html`` into the run's folder.

    Returns:
        Absolute path of the HTML page.

    Raises:
        RunUnwritable: the folder or the disk refuses.
    """
    page = run.path / "report.html"
    try:
        (run.path / "report.md").write_text(markdown.render(run), encoding="utf-8")
        page.write_text(html.render(run), encoding="utf-8")
    except OSError as error:
        raise RunUnwritable(f"cannot write the report into {run.path}: {error.strerror}") from error
    return page.resolve()
