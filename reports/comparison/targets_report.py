"""Two groups of cells held against each other, for a terminal and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from reports import text
from reports.comparison.snapshot import CellFacts
from reports.comparison.targets import Agreement, Pair, Pairing, furthest_apart
from reports.console import and_more, new_grid, new_table, section, style_of, styled

if TYPE_CHECKING:
    from rich.console import Console

_DETAIL = 200


def _title(agreement: Agreement, names: tuple[str, str]) -> str:
    first, second = names
    return {
        Agreement.BOTH_WRONG: "wrong on both: suspect what they share, the case, the export, "
        "the oracle, the kernels",
        Agreement.FIRST_WRONG: f"wrong on {first} alone",
        Agreement.SECOND_WRONG: f"wrong on {second} alone",
        Agreement.FIRST_ONLY: f"passes on {first} alone; vacuous or not executed on {second}",
        Agreement.SECOND_ONLY: f"passes on {second} alone; vacuous or not executed on {first}",
        Agreement.BOTH_PASS: "passes on both",
        Agreement.NEITHER: "passes on neither, and is wrong on neither",
    }[agreement]


def render(
    found: Pairing, decibels: float, console: Console | None = None, *, limit: int = 20
) -> None:
    """Print how many cases agree, those that do not, and where both pass and differ most.

    Args:
        found: the two sides.
        decibels: difference of SQNR from which on a case is listed.
        console: where to; by default standard output.
        limit: cases to print of each kind.
    """
    from rich.console import Console

    out = console or Console()
    first, second = found.names
    out.rule(styled(f"{first} | {second}", "bold"), align="left")
    grid = new_grid()
    for agreement in Agreement:
        if pairs := found.of(agreement):
            grid.add_row(styled(f"{len(pairs):,}"), styled(_title(agreement, found.names)))
    out.print(grid)
    for agreement in Agreement:
        pairs = found.of(agreement)
        if pairs and agreement not in (Agreement.BOTH_PASS, Agreement.NEITHER):
            section(out, _title(agreement, found.names))
            table = new_table("case", first, second)
            for pair in pairs[:limit]:
                sides = (_side(cell) for cell in (pair.first, pair.second))
                table.add_row(styled(text.line(pair.case, 120)), *sides)
            out.print(table)
            and_more(out, len(pairs) - limit)
    apart = furthest_apart(found.of(Agreement.BOTH_PASS), decibels)
    if apart:
        section(out, f"passes on both, SQNR {decibels:g} dB apart or more")
        table = new_table("case", first, second, "difference")
        for pair in apart[:limit]:
            values = (text.decibels(_sqnr(cell)) for cell in (pair.first, pair.second))
            difference = f"{pair.sqnr_difference:+.1f} dB"
            table.add_row(styled(text.line(pair.case, 120)), *values, difference)
        out.print(table)
        and_more(out, len(apart) - limit)


def plain(found: Pairing) -> str:
    """Every case in full."""
    made = {
        "sides": list(found.names),
        "counts": {agreement.value: len(found.of(agreement)) for agreement in Agreement},
        "cases": [_record(pair) for pair in found.pairs],
    }
    return msgspec.json.format(msgspec.json.encode(made), indent=1).decode()


def _record(pair: Pair) -> dict[str, Any]:
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
        return styled("no cell", "dim")
    why = "" if cell.outcome.is_pass else cell.limitation or cell.error
    words = f"{cell.outcome.symbol} {cell.words}{': ' if why else ''}{why}"
    return styled(text.line(words, _DETAIL), style_of(cell.outcome))


def _sqnr(cell: CellFacts | None) -> float | None:
    return min((item.sqnr_db for item in cell.outputs), default=None) if cell else None
