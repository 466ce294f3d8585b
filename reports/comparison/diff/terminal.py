"""A diff for a terminal. rich is imported when something is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports import text
from reports.comparison.diff.compare import Change, Diff
from reports.comparison.diff.kinds import Kind
from reports.comparison.diff.words import headline, kinds_of
from reports.console import and_more, new_grid, new_table, section, styled

if TYPE_CHECKING:
    from rich.console import Console

_GROUPS = 8
_CELL = 120
_DETAIL = 300


def render(found: Diff, console: Console | None = None, *, limit: int = 20) -> None:
    """Print what is compared, in what the two differ, the changes by kind, and the groups.

    Args:
        found: the diff.
        console: where to; by default standard output.
        limit: changes to print of each kind.
    """
    from rich.console import Console

    out = console or Console()
    title = f"{found.before.name} → {found.after.name}"
    out.rule(styled(title, "bold"), align="left")
    environment(found, out)
    for remark in found.remarks:
        out.print(styled(f"! {remark}", "yellow"))
    for kind in Kind:
        if changes := found.of(kind):
            section(out, f"{kind.label}: {text.count(len(changes), 'cell')}, {kind.meaning}")
            _changes(changes, out, limit)
    _groups(found, out)
    out.print()
    out.print(styled(headline(found), "bold"))


def environment(found: Diff, out: Console) -> None:
    """Print in what the two runs differ besides their cells."""
    if not found.environment:
        return
    section(out, "Not the same")
    grid = new_grid()
    for item in found.environment:
        change = f"{item.before or '(unknown)'} → {item.after or '(unknown)'}"
        grid.add_row(styled(item.name, "dim"), styled(change))
    out.print(grid)


def _changes(changes: list[Change], out: Console, limit: int) -> None:
    table = new_table("cell", "change")
    for change in changes[:limit]:
        table.add_row(styled(text.line(change.id, _CELL)), styled(text.line(change.said, _DETAIL)))
    out.print(table)
    and_more(out, len(changes) - limit)


def _groups(found: Diff, out: Console) -> None:
    for title, groups in (
        ("By target", found.by_target()),
        ("By operator", found.by_op()),
        ("By error", found.by_signature()),
    ):
        if not groups:
            continue
        section(out, title)
        grid = new_grid()
        for name, changes in list(groups.items())[:_GROUPS]:
            grid.add_row(styled(f"{len(changes):,}"), styled(text.line(name, _DETAIL)),
                         styled(kinds_of(changes), "dim"))  # fmt: skip
        out.print(grid)
        and_more(out, len(groups) - _GROUPS)
