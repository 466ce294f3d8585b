"""Print a comparison of releases on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports.comparison.releases.compare import Step
from reports.comparison.releases.words import COLUMNS, describe_move, row_figures, summarize_step
from reports.comparison.snapshot import CellFacts
from reports.console import new_table, print_more, print_section, safe_text

if TYPE_CHECKING:
    from rich.console import Console


def render(found: list[Step], console: Console | None = None, *, limit: int = 20) -> None:
    """Print each step: a row per backend, then newly failing and newly passing cells.

    Args:
        found: the steps, oldest first.
        console: by default standard output.
        limit: largest number of cells to print of each kind.
    """
    from rich.console import Console

    out = console or Console()
    for step in found:
        out.rule(safe_text(f"{step.before} → {step.after}", "bold"), align="left")
        out.print(safe_text(f"{summarize_step(step)}."))
        table = new_table(*COLUMNS)
        for row in step.rows:
            table.add_row(*map(safe_text, row_figures(row)))
        out.print(table)
        for title, pairs in (("newly failing", step.lost), ("newly passing", step.gained)):
            _cells(out, title, pairs, limit)
        for remark in step.remarks:
            out.print(safe_text(remark, "dim"))


def _cells(
    out: Console, title: str, pairs: Sequence[tuple[CellFacts, CellFacts]], limit: int
) -> None:
    if not pairs:
        return
    print_section(out, f"{title}: {len(pairs):,}")
    for before, after in pairs[:limit]:
        out.print(safe_text(f"{after.case}@{after.target}"))
        out.print(safe_text(f"    {describe_move(before, after)}", "dim"))
    print_more(out, len(pairs) - limit)
