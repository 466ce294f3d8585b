"""Divide mismatches by backend.

A mismatch of all backends points at the case or its oracle, a mismatch of one at that backend.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reports.outcome import CellOutcome
from reports.summary import CellRow, Totals

_STAGE = "compare"
_WRONG = frozenset({CellOutcome.MISMATCH, CellOutcome.XFAILED})


@dataclass(frozen=True)
class CaseSplit:
    """Backends with wrong and with right outputs for a case.

    Attributes:
        case: name of the case.
        wrong: cells with outputs outside their bounds, known issues included.
        right: backends without such a cell.
    """

    case: str
    wrong: tuple[str, ...]
    right: tuple[str, ...]

    @property
    def backends(self) -> tuple[str, ...]:
        """Backends with a wrong cell, each once."""
        return tuple(
            dict.fromkeys(cell.rpartition("@")[2].partition(":")[0] for cell in self.wrong)
        )


@dataclass
class Mismatches:
    """The mismatches of a run, divided by backend.

    Attributes:
        shared: cases that all of two or more backends get wrong.
        alone: cases that only one backend gets wrong, by that backend.
        some: number of cases that several backends, but not all, get wrong.
    """

    shared: list[CaseSplit] = field(default_factory=list)
    alone: dict[str, list[CaseSplit]] = field(default_factory=dict)
    some: int = 0


def divide_mismatches(rows: Iterable[CellRow]) -> Mismatches:
    """Divide the mismatches of a run by backend; cases of a single backend are ignored."""
    wrong: dict[str, list[CellRow]] = {}
    judged: dict[str, dict[str, None]] = {}
    for row in rows:
        is_wrong = row.outcome in _WRONG and row.cell is not None and row.cell.stage == _STAGE
        if is_wrong:
            wrong.setdefault(row.case, []).append(row)
        if is_wrong or row.outcome.is_pass:
            judged.setdefault(row.case, {})[row.target.partition(":")[0]] = None
    found = Mismatches()
    for case, cells in wrong.items():
        if len(judged[case]) < 2:
            continue
        split = CaseSplit(case, tuple(row.id for row in cells), ())
        right = tuple(name for name in judged[case] if name not in split.backends)
        split = CaseSplit(case, split.wrong, right)
        if not right:
            found.shared.append(split)
        elif len(split.backends) == 1:
            found.alone.setdefault(split.backends[0], []).append(split)
        else:
            found.some += 1
    return found


def compute_scores(totals: Iterable[Totals]) -> Mapping[str, tuple[int | None, int, int]]:
    """Count passed, rated and unsupported cells of each backend; unsupported cells are not rated.

    The number of passed cells is None if no cell was conclusive.
    """
    found: dict[str, Counter[str]] = {}
    for total in totals:
        count = found.setdefault(total.target.partition(":")[0], Counter())
        count["passed"] += total.passed
        count["rated"] += total.rated
        count["conclusive"] += total.conclusive
        count["unsupported"] += total.counts[CellOutcome.UNSUPPORTED]
    return {
        name: (
            count["passed"] if count["conclusive"] else None,
            count["rated"],
            count["unsupported"],
        )
        for name, count in found.items()
        if count.total()
    }
