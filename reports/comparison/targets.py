"""Compare two groups of cells case by case, usually two targets.

An error on both sides points at something they share: the case, the exported program, the oracle.
An error on one side points at that target.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from harness.errors import UsageError
from harness.record.target import cell_id, matches_any_glob
from reports.comparison.snapshot import CellFacts, RunSnapshot
from reports.outcome import CellOutcome


class Agreement(enum.Enum):
    """How the outcomes of the two cells of a case compare."""

    BOTH_WRONG = "both-wrong"
    FIRST_WRONG = "first-wrong"
    SECOND_WRONG = "second-wrong"
    FIRST_ONLY = "first-only"
    SECOND_ONLY = "second-only"
    BOTH_PASS = "both-pass"
    NEITHER = "neither"


_WRONG = {CellOutcome.XFAILED}
"""Outcomes that count as wrong in addition to red ones: a known defect is a defect."""


@dataclass(frozen=True)
class CasePair:
    """A case with its two cells; None if a side does not have the case."""

    case: str
    first: CellFacts | None
    second: CellFacts | None

    @property
    def agreement(self) -> Agreement:
        """How the outcomes of the two cells compare."""
        (a, b), (x, y) = (
            [rule(side) for side in (self.first, self.second)] for rule in (_wrong, _passes)
        )
        if a and b:
            return Agreement.BOTH_WRONG
        if a or b:
            return Agreement.FIRST_WRONG if a else Agreement.SECOND_WRONG
        if x and y:
            return Agreement.BOTH_PASS
        if x or y:
            return Agreement.FIRST_ONLY if x else Agreement.SECOND_ONLY
        return Agreement.NEITHER

    @property
    def sqnr_difference(self) -> float | None:
        """The largest difference of SQNR, second minus first, over the outputs, in dB; None if a
        side has no outputs."""
        if self.first is None or self.second is None:
            return None
        pairs = zip(self.first.outputs, self.second.outputs, strict=False)
        found = (
            min(new.sqnr_db, _ENOUGH) - min(old.sqnr_db, _ENOUGH)
            for old, new in pairs
            if old.sqnr_db == old.sqnr_db and new.sqnr_db == new.sqnr_db
        )
        return max(found, key=abs, default=None)


_ENOUGH = 140.0  # dB; above, only rounding differs


@dataclass(frozen=True)
class Pairing:
    """Two groups of cells, by case.

    Attributes:
        names: the names of the two sides.
        pairs: every case of either side.
    """

    names: tuple[str, str]
    pairs: list[CasePair]

    def select_kind(self, agreement: Agreement) -> list[CasePair]:
        """The cases with this agreement."""
        return [pair for pair in self.pairs if pair.agreement is agreement]


def pair_up(first: RunSnapshot, these: str, second: RunSnapshot, those: str) -> Pairing:
    """Pair cells of one run with other cells of the same or another run, by case.

    Args:
        first: a run.
        these: globs over its cell ids, separated by ``|``: ``*@xnnpack:fp32``.
        second: the same run, or another.
        those: globs over the cell ids of the second run.

    Raises:
        UsageError: a side matches nothing or has two cells of a case, or the sides share no case.
    """
    one, other = _by_case(first, these), _by_case(second, those)
    if not one.keys() & other.keys():
        raise UsageError(f"{these!r} and {those!r} have no case in common")
    cases = dict.fromkeys([*one, *other])
    made = [CasePair(case, one.get(case), other.get(case)) for case in cases]
    return Pairing((these, those), made)


def _by_case(run: RunSnapshot, globs: str) -> dict[str, CellFacts]:
    found: dict[str, CellFacts] = {}
    for name, cell in run.cells.items():
        if not matches_any_glob(globs, name):
            continue
        if (twin := found.setdefault(cell.case, cell)) is not cell:
            raise UsageError(
                f"{globs!r} matches {cell_id(twin.case, twin.target)} and {name}; "
                "give globs that match one cell of each case"
            )
    if not found:
        raise UsageError(f"{globs!r} matches no cell of {run.name}; cells are CASE@BACKEND:RECIPE")
    return found


def _wrong(cell: CellFacts | None) -> bool:
    return cell is not None and (cell.outcome.is_red or cell.outcome in _WRONG)


def _passes(cell: CellFacts | None) -> bool:
    return cell is not None and cell.outcome.is_pass


def find_furthest_apart(pairs: Iterable[CasePair], decibels: float) -> list[CasePair]:
    """The pairs whose SQNRs differ by at least ``decibels``, the largest difference first."""
    known = [
        (abs(difference), pair)
        for pair in pairs
        if (difference := pair.sqnr_difference) is not None and abs(difference) >= decibels
    ]
    return [pair for _, pair in sorted(known, key=lambda item: (-item[0], item[1].case))]
