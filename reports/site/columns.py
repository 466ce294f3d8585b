"""A run as columns over the cells of all runs: what the matrix and the comparison read.

A cell has one number in the whole site, its place in the :class:`Catalogue`. A column holds a
value for each cell that the run has, in that order; ``outcomes`` says which cells those are.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from harness.record.cell import Cell
from harness.record.host import Environment
from reports import summary, text
from reports.comparison.diff import signature
from reports.comparison.snapshot import CellFacts, RunSnapshot
from reports.outcome import CellOutcome
from reports.render import views
from reports.site.pack import number
from reports.summary import CellRow

#: The letter of each outcome in a string of outcomes; a cell that a run does not have is a dot.
LETTERS = {outcome: chr(ord("a") + at) for at, outcome in enumerate(CellOutcome)}
ABSENT = "."

_ERROR = 300
#: Stands in an array where a cell has no such number; NaN is a number that some cells have.
NOTHING = 1.5e308


@dataclass
class Catalogue:
    """Every cell that any run has; runs are added newest first, and numbers never change."""

    cells: dict[str, int] = field(default_factory=dict)
    case: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    cases: dict[str, int] = field(default_factory=dict)
    targets: dict[str, int] = field(default_factory=dict)
    groups: list[tuple[str, str]] = field(default_factory=list)

    def add(self, row: CellRow) -> int:
        """The number of a row's cell, a new one when no newer run has it."""
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
        """What the page needs to name cells; a text that is not safe to show has a safe twin."""
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
    """Distinct values, each with its place."""

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self.items: dict[Any, int] = {}
        for value in values:
            self.at(value)

    def at(self, value: Any) -> int:
        """The place of a value, the next one when it is new."""
        return self.items.setdefault(value, len(self.items))


def _twins(names: Iterable[str], limit: int) -> list[tuple[int, str]]:
    shown = ((at, name, text.line(name, limit)) for at, name in enumerate(names))
    return [(at, safe) for at, name, safe in shown if safe != name]


#: Numbers of a cell that are compared and drawn, by the name of their column.
MEASURES: dict[str, Callable[[Cell], float | None]] = {
    "seconds": lambda cell: cell.seconds or None,
    "used": summary.worst_bound_used,
    "sqnr": summary.worst_sqnr,
}


@dataclass
class CellHistory:
    """What one run adds to the history of every cell; ``NOTHING`` where one has no such number."""

    outcomes: bytearray
    measures: dict[str, array[float]]

    @classmethod
    def from_rows(cls, rows: list[tuple[int, CellRow]], cells: int) -> CellHistory:
        """Spread a run's rows over ``cells`` places."""
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
    """What the matrix, its filters and the limitations show of a run.

    Args:
        rows: the run's rows with their numbers, in the order of these.
        cells: how many cells the catalogue has.
    """
    outcomes = bytearray(ABSENT.encode() * cells)
    errors, gaps = ValueIndex([""]), ValueIndex([None])
    made: dict[str, list[Any]] = {name: [] for name in (*MEASURES, "severity", "error", "gap")}
    for at, row in rows:
        outcomes[at] = ord(LETTERS[row.outcome])
        cell = row.cell
        for name, measure in MEASURES.items():
            made[name].append(None if cell is None else number(measure(cell)))
        # 0 for what is no mismatch, and where the record does not say.
        made["severity"].append(row.severity.rank if row.severity else 0)
        error = text.line((cell.error if cell else None) or "", _ERROR)
        made["error"].append(errors.at(error))
        made["gap"].append(gaps.at(summary.limitation_key(row)))
    reasons = [_gap(*key) for key in gaps.items if key is not None]
    return {"outcomes": outcomes.decode(), **made, "errors": list(errors.items),
            "gaps": [None, *reasons]}  # fmt: skip


def _gap(reason: str, link: str | None) -> list[str | None]:
    return [text.line(reason, 600), text.line(link or "", 500), views.safe_link(link)]


def comparison(facts: list[CellFacts], run: RunSnapshot) -> dict[str, Any]:
    """What ``reports.comparison.diff`` reads of each cell; the page has the same rules."""
    signatures, runtimes, hosts, shares = (
        ValueIndex([""]),
        ValueIndex(["none"]),
        ValueIndex([""]),
        ValueIndex(),
    )
    made: dict[str, list[Any]] = {
        name: []
        for name in ("signature", "runtime", "host", "share", "bytes", "planned", "outputs")
    }
    for cell in facts:
        made["signature"].append(signatures.at(signature(cell)))
        made["runtime"].append(runtimes.at(cell.runtime))
        made["host"].append(hosts.at(_host(run.environment(cell))))
        made["share"].append(shares.at(_share(cell)))
        made["bytes"].append(cell.program_bytes)
        made["planned"].append(cell.planned_memory)
        made["outputs"].append([
            [item.call, item.output, *map(number, (item.sqnr_db, item.bound_used,
                                                   item.model_sqnr_db))]
            for item in cell.outputs
        ])  # fmt: skip
    return {
        **made,
        "signatures": list(signatures.items),
        "hosts": list(hosts.items),
        "runtimes": [text.line(name, 40) for name in runtimes.items],
        "shares": list(shares.items),
    }


def _host(place: Environment) -> str:
    """Times of two cells can be compared when this is the same, and not empty."""
    parts = (place.host, place.machine, place.processor, place.vectors, place.cores)
    return repr(parts) if place.host else ""


def _share(cell: CellFacts) -> tuple[Any, ...]:
    """Delegates, nodes taken and left, then the ops of each with their calls."""
    ops = (cell.delegated_ops, cell.undelegated_ops)
    taken, left = (tuple((text.line(op, 120), calls) for op, calls in sorted(of.items()))
                   for of in ops)  # fmt: skip
    return cell.delegates, cell.delegated_nodes, cell.undelegated_nodes, taken, left
