"""Print a judgement on a terminal. rich is imported only to print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports import text
from reports.comparison.diff import Change
from reports.comparison.diff.terminal import environment
from reports.comparison.diff.words import describe_kinds
from reports.comparison.gate.judge import Colour, Judgement
from reports.console import new_grid, new_table, print_more, print_section, safe_text

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN = 20
_NOTED = 5
_STYLES = {
    Colour.GREEN: "bold white on blue",
    Colour.RED: "bold white on red",
    Colour.UNJUDGED: "bold black on yellow",
}


def render(judged: Judgement, under: str = "", console: Console | None = None) -> None:
    """Print environment changes, red changes with repro lines, waived changes and the result.

    Args:
        judged: the judgement.
        under: name of the policy.
        console: by default standard output.
    """
    from rich.console import Console

    out = console or Console()
    found = judged.found
    out.rule(safe_text(f"gate: {found.before.name} → {found.after.name}", "bold"), align="left")
    if under:
        out.print(safe_text(f"policy: {under}", "dim"))
    environment(found, out)
    for line in [*judged.warnings, *found.remarks]:
        out.print(safe_text(f"! {line}", "yellow"))
    _changes("Red", judged.red, out, _SHOWN, repro=True)
    _lines("Waivers", judged.waivers, "bold red", out)
    _lines("Could not judge", judged.obstacles, "bold yellow", out)
    _changes("Known failures, also red in the baseline", judged.known, out, _NOTED)
    _changes("Mismatches below severity_at_least", judged.mild, out, _NOTED)
    _print_waived(judged, out)
    _changes("Worse, but allowed by the policy", judged.noted, out, _NOTED)
    out.print()
    title = f" {judged.colour.words.upper()} "
    out.print(safe_text(title, _STYLES[judged.colour]), safe_text(f" {judged.sentence}"))


def _changes(
    title: str, changes: list[Change], out: Console, limit: int, *, repro: bool = False
) -> None:
    if not changes:
        return
    print_section(out, f"{title}: {describe_kinds(changes)}")
    table = new_table("kind", "cell", "change")
    for change in changes[:limit]:
        detail = text.line(change.description, 400)
        if repro:
            detail += f"\n{text.line(change.cell.repro, 300)}"
        table.add_row(
            safe_text(change.kind.label), safe_text(text.line(change.id, 120)), safe_text(detail)
        )
    out.print(table)
    print_more(out, len(changes) - limit)


def _lines(title: str, lines: list[str], style: str, out: Console) -> None:
    if not lines:
        return
    print_section(out, title)
    for line in lines[:_SHOWN]:
        out.print(safe_text(f"• {text.line(line, 600)}", style))
    print_more(out, len(lines) - _SHOWN)


def _print_waived(judged: Judgement, out: Console) -> None:
    if not judged.waived:
        return
    print_section(out, f"Waived: {text.count(len(judged.waived), 'change')}")
    grid = new_grid()
    for change, waiver in judged.waived[:_SHOWN]:
        why = f"{waiver.reason} ({waiver.owner}, until {waiver.expires})"
        grid.add_row(safe_text(text.line(change.id, 120)), safe_text(f"{change.kind.label}: {why}"))
    out.print(grid)
    print_more(out, len(judged.waived) - _SHOWN)
