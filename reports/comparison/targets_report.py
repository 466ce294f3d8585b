"""Render a comparison of two groups of cells for a terminal and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from reports import text
from reports.comparison.snapshot import CellFacts
from reports.comparison.targets import Agreement, CasePair, Pairing, find_furthest_apart
from reports.console import new_grid, new_table, outcome_style, print_more, print_section, safe_text

if TYPE_CHECKING:
    from rich.console import Console

_DETAIL = 200


def _title(agreement: Agreement, names: tuple[str, str]) -> str:
    first, second = names
    return {
        Agreement.BOTH_WRONG: "wrong on both: suspect the case, the export, the oracle or the "
        "kernels, which both share",
        Agreement.FIRST_WRONG: f"wrong only on {first}",
        Agreement.SECOND_WRONG: f"wrong only on {second}",
        Agreement.FIRST_ONLY: f"passes only on {first}; vacuous or not executed on {second}",
        Agreement.SECOND_ONLY: f"passes only on {second}; vacuous or not executed on {first}",
        Agreement.BOTH_PASS: "passes on both",
        Agreement.NEITHER: "neither passes nor is wrong on either",
    }[agreement]


def render(
    found: Pairing, decibels: float, console: Console | None = None, *, limit: int = 20
) -> None:
    """Print the number of cases by agreement, cases that disagree, passes whose SQNR differs.

    Args:
        found: the two sides.
        decibels: smallest difference of SQNR that is listed.
        console: destination; by default standard output.
        limit: largest number of cases to print of each kind.
    """
    from rich.console import Console

    out = console or Console()
    first, second = found.names
    out.rule(safe_text(f"{first} | {second}", "bold"), align="left")
    grid = new_grid()
    for agreement in Agreement:
        if pairs := found.select_kind(agreement):
            grid.add_row(safe_text(f"{len(pairs):,}"), safe_text(_title(agreement, found.names)))
    out.print(grid)
    for agreement in Agreement:
        pairs = found.select_kind(agreement)
        if pairs and agreement not in (Agreement.BOTH_PASS, Agreement.NEITHER):
            print_section(out, _title(agreement, found.names))
            table = new_table("case", first, second)
            for pair in pairs[:limit]:
                sides = (_side(cell) for cell in (pair.first, pair.second))
                table.add_row(safe_text(text.line(pair.case, 120)), *sides)
            out.print(table)
            print_more(out, len(pairs) - limit)
    apart = find_furthest_apart(found.select_kind(Agreement.BOTH_PASS), decibels)
    if apart:
        print_section(out, f"passes on both, SQNR differs by {decibels:g} dB or more")
        table = new_table("case", first, second, "difference")
        for pair in apart[:limit]:
            values = (text.decibels(_sqnr(cell)) for cell in (pair.first, pair.second))
            difference = f"{pair.sqnr_difference:+.1f} dB"
            table.add_row(safe_text(text.line(pair.case, 120)), *values, difference)
        out.print(table)
        print_more(out, len(apart) - limit)


def plain(found: Pairing) -> str:
    """Every case in full, as JSON."""
    made = {
        "sides": list(found.names),
        "counts": {agreement.value: len(found.select_kind(agreement)) for agreement in Agreement},
        "cases": [_record(pair) for pair in found.pairs],
    }
    return msgspec.json.format(msgspec.json.encode(made), indent=1).decode()


def _record(pair: CasePair) -> dict[str, Any]:
    return {
        "case": pair.case,
        "agreement": pair.agreement.value,
        "outcomes": [cell and cell.outcome.value for cell in (pair.first, pair.second)],
        "targets": [cell and cell.target for cell in (pair.first, pair.second)],
        "errors": [cell and (cell.limitation or cell.error) for cell in (pair.first, pair.second)],
        "sqnr_difference_db": pair.sqnr_difference,
        "repro": [cell and cell.repro for cell in (pair.first, pair.second)],
    }


def _side(cell: CellFacts | None) -> Any:
    if cell is None:
        return safe_text("no cell", "dim")
    why = "" if cell.outcome.is_pass else cell.limitation or cell.error
    words = f"{cell.outcome.symbol} {cell.words}{': ' if why else ''}{why}"
    return safe_text(text.line(words, _DETAIL), outcome_style(cell.outcome))


def _sqnr(cell: CellFacts | None) -> float | None:
    return min((item.sqnr_db for item in cell.outputs), default=None) if cell else None
