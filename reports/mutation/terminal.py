"""Print mutation scores."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.coverage.mutation.mutant import Campaign, MutantResult
from reports import text
from reports.console import new_table
from reports.mutation import views
from reports.mutation.views import MutationScore, ScoreChange

_MOST = 40


def render(campaigns: Sequence[Campaign], console: Console, *, limit: int) -> None:
    """Print the scores of all campaigns; of a single one also its files and survivors.

    Args:
        campaigns: the campaigns.
        console: where to print.
        limit: print at most this many files and survivors; 0 for all.
    """
    console.print(_tabulate([views.compute_score(each) for each in campaigns], "Mutation scores"))
    if len(campaigns) == 1:
        campaign = campaigns[0]
        console.print(_tabulate(views.list_operator_scores(campaign), "By kind of change"))
        _print_files(views.list_file_scores(campaign), console, limit)
        survivors = views.list_survivors(campaign)
        if survivors:
            console.print(Text(text.count(len(survivors), "survivor"), style="bold"))
        for each in survivors[:limit] if limit else survivors:
            console.print(Text(describe(each)), soft_wrap=True)
        if limit and len(survivors) > limit:
            console.print(Text(f"and {len(survivors) - limit:,} more; --limit 0 shows all"))
    for outcome, meaning in views.MEANINGS.items():
        console.print(Text(f"{outcome}: {meaning}", style="dim"))


def render_changes(
    target: str, changes: Sequence[ScoreChange], console: Console, *, limit: int
) -> None:
    """Print the mutants of a target whose outcome changed."""
    worse = sum(each.is_worse for each in changes)
    console.print(Text(f"{target}: {worse:,} worse, {len(changes) - worse:,} better", style="bold"))
    for each in changes[:limit] if limit else changes:
        console.print(Text(f"{each.before.outcome} → {describe(each.after)}"), soft_wrap=True)


def describe(result: MutantResult) -> str:
    """Describe a judged mutant in one line."""
    mutant = result.mutant
    change = text.line(views.describe_change(result), _MOST * 2)
    place = f"{mutant.file}:{mutant.first} {mutant.function}"
    shown = f" by {result.cell}" if result.cell else ""
    if result.detail:
        shown += f": {text.line(result.detail, 120)}"
    cells = views.describe_cells(result) if result.outcome in views.SURVIVED else ""
    parts = (mutant.id, f"{result.outcome:<9}", f"{place}:", f"{mutant.operator}:", change, cells)
    return " ".join(filter(None, parts)) + shown


def _print_files(rows: Sequence[MutationScore], console: Console, limit: int) -> None:
    """Print the files with survivors, most of them first."""
    rows = [row for row in rows if row.survivors]
    if rows:
        console.print(Text("Survivors by file", style="bold"))
    for row in rows[:limit] if limit else rows:
        console.print(Text(f"{row.survivors:>4} of {row.judged:>3}  {row.name}"), soft_wrap=True)


def _tabulate(rows: Sequence[MutationScore], title: str) -> Table:
    table = new_table(title=title)
    table.add_column("", no_wrap=True)
    has_totals = any(row.executed for row in rows)
    headings = [*(["mutants", "executed"] if has_totals else []), "judged", "red", "noticed"]
    for heading in [*headings, "survive", "explained"]:
        table.add_column(str(heading), justify="right", no_wrap=True)
    for row in rows:
        totals = [f"{row.executed + row.unexecuted:,}", f"{row.executed_share:.0%}"]
        table.add_row(
            row.name,
            *(totals if has_totals else []),
            f"{row.judged:,}",
            *(f"{share:.0%}" if row.judged else "" for share in (row.red, row.noticed)),
            f"{row.survivors:,}",
            f"{row.explained:,}",
        )
    return table
