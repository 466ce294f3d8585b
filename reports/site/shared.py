"""Mismatches by who has them: what all backends get wrong points at the case or its oracle, what
one gets wrong at that backend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reports.outcome import CellOutcome
from reports.summary import CellRow, Totals

_STAGE = "compare"
_WRONG = frozenset({CellOutcome.MISMATCH, CellOutcome.XFAILED})


@dataclass(frozen=True)
class Split:
    """How the backends that computed something for a case divide.

    Attributes:
        case: its name.
        wrong: cells whose outputs are outside of their bounds, known gaps among them.
        right: backends none of whose outputs are.
    """

    case: str
    wrong: tuple[str, ...]
    right: tuple[str, ...]

    @property
    def backends(self) -> tuple[str, ...]:
        """Those with a wrong cell, each once."""
        return tuple(
            dict.fromkeys(cell.rpartition("@")[2].partition(":")[0] for cell in self.wrong)
        )


@dataclass
class Mismatches:
    """The mismatches of a run.

    Attributes:
        shared: cases that every backend gets wrong, of two or more.
        alone: cases that one backend gets wrong and another right, by that backend.
        some: number of cases that several get wrong and others right.
    """

    shared: list[Split] = field(default_factory=list)
    alone: dict[str, list[Split]] = field(default_factory=dict)
    some: int = 0


def mismatches(rows: Iterable[CellRow]) -> Mismatches:
    """Divide the cases of a run; one that a single backend computed divides nobody."""
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
        split = Split(case, tuple(row.id for row in cells), ())
        right = tuple(name for name in judged[case] if name not in split.backends)
        split = Split(case, split.wrong, right)
        if not right:
            found.shared.append(split)
        elif len(split.backends) == 1:
            found.alone.setdefault(split.backends[0], []).append(split)
        else:
            found.some += 1
    return found


def scores(totals: Iterable[Totals]) -> Mapping[str, tuple[int | None, int, int]]:
    """Of each backend the cells that passed, those that are rated, and the unsupported, which are
    not. Nothing passed or failed where nothing was executed: None."""
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
