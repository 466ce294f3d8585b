"""Two groups of cells held against each other, case by case: usually one target and another.

What both get wrong points at what they share: the case, the exported program, the oracle. What one
alone gets wrong points at that one.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from harness.errors import UsageError
from harness.record.target import cell_id, matches_any_glob
from reports.comparison.snapshot import CellFacts, Snapshot
from reports.outcome import Outcome


class Agreement(enum.Enum):
    """What the two cells of a case are to each other; the value is its spelling."""

    BOTH_WRONG = "both-wrong"
    FIRST_WRONG = "first-wrong"
    SECOND_WRONG = "second-wrong"
    FIRST_ONLY = "first-only"
    SECOND_ONLY = "second-only"
    BOTH_PASS = "both-pass"
    NEITHER = "neither"


_WRONG = {Outcome.XFAILED}
"""Besides what is red: a known defect is a defect."""


@dataclass(frozen=True)
class Pair:
    """A case with its two cells; None where a side has none."""

    case: str
    first: CellFacts | None
    second: CellFacts | None

    @property
    def agreement(self) -> Agreement:
        """Which of the two does what it should."""
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
        """SQNR of the second less that of the first, in dB, of the outputs where they are furthest
        apart; None where not both have any."""
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
        names: of the two sides.
        pairs: every case that one of them has.
    """

    names: tuple[str, str]
    pairs: list[Pair]

    def of(self, agreement: Agreement) -> list[Pair]:
        """The cases of one kind."""
        return [pair for pair in self.pairs if pair.agreement is agreement]


def pair_up(first: Snapshot, these: str, second: Snapshot, those: str) -> Pairing:
    """Hold the cells of a run against others of it, or of another run.

    Args:
        first: a run.
        these: globs over its cell ids, separated by ``|``: ``*@xnnpack:fp32``.
        second: the same run, or another.
        those: globs over the cell ids there.

    Raises:
        UsageError: a side matches nothing, has two cells of a case, or no case is on both.
    """
    one, other = _by_case(first, these), _by_case(second, those)
    if not one.keys() & other.keys():
        raise UsageError(f"no case is among both {these!r} and {those!r}")
    cases = dict.fromkeys([*one, *other])
    made = [Pair(case, one.get(case), other.get(case)) for case in cases]
    return Pairing((these, those), made)


def _by_case(run: Snapshot, globs: str) -> dict[str, CellFacts]:
    found: dict[str, CellFacts] = {}
    for name, cell in run.cells.items():
        if not matches_any_glob(globs, name):
            continue
        if (twin := found.setdefault(cell.case, cell)) is not cell:
            raise UsageError(
                f"{globs!r} matches {cell_id(twin.case, twin.target)} and {name}; "
                "a side has one cell a case"
            )
    if not found:
        raise UsageError(f"{globs!r} matches no cell of {run.name}; cells are CASE@BACKEND:RECIPE")
    return found


def _wrong(cell: CellFacts | None) -> bool:
    return cell is not None and (cell.outcome.is_red or cell.outcome in _WRONG)


def _passes(cell: CellFacts | None) -> bool:
    return cell is not None and cell.outcome.is_pass


def furthest_apart(pairs: Iterable[Pair], decibels: float) -> list[Pair]:
    """Those whose SQNRs differ by as much or more, the furthest first."""
    known = [
        (abs(difference), pair)
        for pair in pairs
        if (difference := pair.sqnr_difference) is not None and abs(difference) >= decibels
    ]
    return [pair for _, pair in sorted(known, key=lambda item: (-item[0], item[1].case))]
