"""The page of mutation scores: one file without scripts."""

from __future__ import annotations

from collections.abc import Sequence

from harness.coverage.mutation.mutant import Campaign
from reports import jinja
from reports.mutation import views


def render(campaigns: Sequence[Campaign], *, title: str, back: str = "") -> str:
    """Render the page.

    Args:
        campaigns: the campaigns of a run.
        title: name of the run.
        back: address of the page to go back to; empty for none.
    """
    return jinja.render(
        "mutation.html.j2",
        ["base.css", "releases.css", "coverage.css"],
        title=title,
        back=back,
        scores=[views.compute_score(each) for each in campaigns],
        survivors={each.info.target: views.group_survivors(each) for each in campaigns},
        operators={each.info.target: views.list_operator_scores(each) for each in campaigns},
        survived=views.SURVIVED,
        meanings=views.MEANINGS,
        describe_change=views.describe_change,
        describe_cells=views.describe_cells,
    )
