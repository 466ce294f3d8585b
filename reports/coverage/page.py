"""The page of a coverage summary: one file without scripts."""

from __future__ import annotations

from harness.coverage.summary import CoverageSummary, ExecutedBy
from reports import jinja
from reports.coverage import views


def render(summary: CoverageSummary, *, title: str, back: str = "") -> str:
    """Render the page.

    Args:
        summary: the summary.
        title: name of the run.
        back: address of the page to go back to; empty for none.
    """
    rows = views.list_areas(summary)
    files = {row.area: views.select_files(summary, row.area) for row in rows}
    return jinja.render(
        "coverage.html.j2",
        ["base.css", "releases.css", "coverage.css"],
        title=title,
        back=back,
        cells=views.describe_cells(summary),
        rows=rows,
        files=files,
        kinds=list(ExecutedBy),
        labels=views.LABELS,
        meanings=views.MEANINGS,
        functions=views.select_functions,
        describe=views.describe_function,
    )
