"""The page of core ATen operators on all targets: one file without scripts."""

from __future__ import annotations

from collections.abc import Sequence

from reports import jinja
from reports.support import views, words
from reports.support.views import Support, SupportTable


def render(tables: Sequence[SupportTable], *, title: str, back: str = "") -> str:
    """Render the page.

    Args:
        tables: the tables of a run.
        title: name of the run.
        back: address of the page to go back to; empty for none.
    """
    # A run has dozens of targets; those that its suites are about come first.
    tables = sorted(tables, key=lambda table: -table.called)
    return jinja.render(
        "support.html.j2",
        ["base.css", "releases.css", "coverage.css", "support.css"],
        title=title,
        back=back,
        tables=tables,
        operators=views.list_core(tables),
        kinds=[kind for kind in Support if kind.value],
        meanings=words.MEANINGS,
        unclaimed=Support.UNCLAIMED,
        describe_table=words.describe_table,
        describe_versions=words.describe_versions,
        describe_claim=words.describe_claim,
        describe_row=words.describe_row,
        describe_gaps=words.describe_gaps,
    )
