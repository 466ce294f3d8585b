"""A run as columns over cells, for the matrix.

Each cell has one number in the whole site, its place in the :class:`Catalogue`. A column has a
value for each cell of the run, in that order; ``outcomes`` says which cells the run has.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from harness.record.cell import Cell
from reports import summary, text
from reports.outcome import CellOutcome
from reports.render import views
from reports.site.pack import number
from reports.summary import CellRow

#: The letter of each outcome in a string of outcomes; a dot stands for a missing cell.
LETTERS = {outcome: chr(ord("a") + at) for at, outcome in enumerate(CellOutcome)}
ABSENT = "."

_ERROR = 300
#: Marks a missing number in an array; NaN cannot, since some cells have NaN as their value.
NOTHING = 1.5e308


@dataclass
class Catalogue:
    """The cells of all runs. Runs are added newest first, and numbers never change."""

    cells: dict[str, int] = field(default_factory=dict)
    case: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    cases: dict[str, int] = field(default_factory=dict)
    targets: dict[str, int] = field(default_factory=dict)
    groups: list[tuple[str, str]] = field(default_factory=list)

    def add(self, row: CellRow) -> int:
        """Add a cell unless a newer run has it, and return its number."""
        known = self.cells.get(row.id)
        if known is not None:
            return known
        if row.case not in self.cases:
            self.cases[row.case] = len(self.cases)
            self.groups.append((row.op or row.case.partition("/")[0], row.suite))
        self.cells[row.id] = made = len(self.cells)
        self.case.append(self.cases[row.case])
        self.target.append(self.targets.setdefault(row.target, len(self.targets)))
        return made

    def data(self) -> dict[str, Any]:
        """Make the data file with the names of all cells, and a safe form of unsafe names."""
        ops = ValueIndex(op for op, _ in self.groups)
        suites = ValueIndex(suite for _, suite in self.groups)
        return {
            "cases": list(self.cases),
            "targets": list(self.targets),
            "ops": [text.line(op, 120) for op in ops.items],
            "suites": [text.line(suite, 120) for suite in suites.items],
            "op": [ops.items[op] for op, _ in self.groups],
            "suite": [suites.items[suite] for _, suite in self.groups],
            "case": self.case,
            "target": self.target,
            "shown": {
                "cases": _twins(self.cases, 300),
                "targets": _twins(self.targets, 120),
            },
        }


class ValueIndex:
    """Distinct values, each with its index."""

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self.items: dict[Any, int] = {}
        for value in values:
            self.at(value)

    def at(self, value: Any) -> int:
        """Return the index of a value, and add a new value at the end."""
        return self.items.setdefault(value, len(self.items))


def _twins(names: Iterable[str], limit: int) -> list[tuple[int, str]]:
    shown = ((at, name, text.line(name, limit)) for at, name in enumerate(names))
    return [(at, safe) for at, name, safe in shown if safe != name]


#: Metrics of a cell that the site draws, by column name.
MEASURES: dict[str, Callable[[Cell], float | None]] = {
    "seconds": lambda cell: cell.seconds or None,
    "used": summary.worst_bound_used,
    "sqnr": summary.worst_sqnr,
}


@dataclass
class CellHistory:
    """Outcomes and metrics of all cells in one run; ``NOTHING`` for a missing metric."""

    outcomes: bytearray
    measures: dict[str, array[float]]

    @classmethod
    def from_rows(cls, rows: list[tuple[int, CellRow]], cells: int) -> CellHistory:
        """Spread the rows of a run over ``cells`` places."""
        made = cls(
            bytearray(ABSENT.encode() * cells),
            {name: array("d", [NOTHING]) * cells for name in MEASURES},
        )
        for at, row in rows:
            made.outcomes[at] = ord(LETTERS[row.outcome])
            for name, measure in MEASURES.items() if row.cell is not None else ():
                value = measure(row.cell) if row.cell is not None else None
                made.measures[name][at] = NOTHING if value is None else value
        return made


def columns(rows: list[tuple[int, CellRow]], cells: int) -> dict[str, Any]:
    """Make the columns of a run for the matrix, its filters and the limitations.

    Args:
        rows: the run's rows with the numbers of their cells, in that order.
        cells: number of cells in the catalogue.
    """
    outcomes = bytearray(ABSENT.encode() * cells)
    errors, gaps = ValueIndex([""]), ValueIndex([None])
    made: dict[str, list[Any]] = {name: [] for name in (*MEASURES, "severity", "error", "gap")}
    for at, row in rows:
        outcomes[at] = ord(LETTERS[row.outcome])
        cell = row.cell
        for name, measure in MEASURES.items():
            made[name].append(None if cell is None else number(measure(cell)))
        # 0 for other outcomes and for records without a severity.
        made["severity"].append(row.severity.rank if row.severity else 0)
        error = text.line((cell.error if cell else None) or "", _ERROR)
        made["error"].append(errors.at(error))
        made["gap"].append(gaps.at(summary.limitation_key(row)))
    reasons = [_gap(*key) for key in gaps.items if key is not None]
    return {"outcomes": outcomes.decode(), **made, "errors": list(errors.items),
            "gaps": [None, *reasons]}  # fmt: skip


def _gap(reason: str, link: str | None) -> list[str | None]:
    return [text.line(reason, 600), text.line(link or "", 500), views.safe_link(link)]
