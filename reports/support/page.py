"""The page of core ATen operators on all targets: one file without scripts."""

from __future__ import annotations

from collections.abc import Sequence

from reports import jinja
from reports.support import views
from reports.support.views import Support, SupportTable


def render(tables: Sequence[SupportTable], *, title: str, back: str = "") -> str:
    """Render the page.

    Args:
        tables: the tables of a run.
        title: name of the run.
        back: address of the page to go back to; empty for none.
    """
    return (
        jinja.environment()
        .get_template("support.html.j2")
        .render(
            css=jinja.sources("base.css", "releases.css", "coverage.css", "support.css"),
            title=title,
            back=back,
            tables=tables,
            operators=views.list_core(tables),
            kinds=[kind for kind in Support if kind.value],
            meanings=views.MEANINGS,
            unclaimed=Support.UNCLAIMED,
            describe_table=views.describe_table,
            describe_versions=views.describe_versions,
            describe_claim=views.describe_claim,
            describe_row=views.describe_row,
            describe_gaps=views.describe_gaps,
        )
    )
