"""Print a diff. rich is imported when something is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports import text
from reports.comparison.diff.compare import Change, Diff
from reports.comparison.diff.kinds import ChangeKind
from reports.comparison.diff.words import describe_kinds, headline
from reports.console import new_grid, new_table, print_more, print_section, safe_text

if TYPE_CHECKING:
    from rich.console import Console

_GROUPS = 8
_CELL = 120
_DETAIL = 300


def render(found: Diff, console: Console | None = None, *, limit: int = 20) -> None:
    """Print the names of the runs, differences of environment, changes by kind, and groups.

    Args:
        found: the diff.
        console: destination; by default standard output.
        limit: largest number of changes to print of each kind.
    """
    from rich.console import Console

    out = console or Console()
    title = f"{found.before.name} → {found.after.name}"
    out.rule(safe_text(title, "bold"), align="left")
    environment(found, out)
    for remark in found.remarks:
        out.print(safe_text(f"! {remark}", "yellow"))
    for kind in ChangeKind:
        if changes := found.select_kind(kind):
            print_section(out, f"{kind.label}: {text.count(len(changes), 'cell')}, {kind.meaning}")
            _changes(changes, out, limit)
    _groups(found, out)
    out.print()
    out.print(safe_text(headline(found), "bold"))


def environment(found: Diff, out: Console) -> None:
    """Print the differences of environment."""
    if not found.environment:
        return
    print_section(out, "Different environment")
    grid = new_grid()
    for item in found.environment:
        change = f"{item.before or '(unknown)'} → {item.after or '(unknown)'}"
        grid.add_row(safe_text(item.name, "dim"), safe_text(change))
    out.print(grid)


def _changes(changes: list[Change], out: Console, limit: int) -> None:
    table = new_table("cell", "change")
    for change in changes[:limit]:
        table.add_row(
            safe_text(text.line(change.id, _CELL)),
            safe_text(text.line(change.description, _DETAIL)),
        )
    out.print(table)
    print_more(out, len(changes) - limit)


def _groups(found: Diff, out: Console) -> None:
    for title, groups in (
        ("By target", found.by_target()),
        ("By operator", found.by_op()),
        ("By error", found.by_signature()),
    ):
        if not groups:
            continue
        print_section(out, title)
        grid = new_grid()
        for name, changes in list(groups.items())[:_GROUPS]:
            grid.add_row(safe_text(f"{len(changes):,}"), safe_text(text.line(name, _DETAIL)),
                         safe_text(describe_kinds(changes), "dim"))  # fmt: skip
        out.print(grid)
        print_more(out, len(groups) - _GROUPS)
