"""Limitations that have nothing left to explain: every cell they speak of is declared unsupported.

Such an entry can neither be confirmed nor refuted any more, and reads as a defect that nobody sees.
Only a run that had all cells of an entry can tell.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path

import msgspec

from harness.model import registry
from harness.model.case import Case
from harness.model.limitation import Limitation, find_limitation
from harness.record.cell import Cell, Status
from harness.record.target import Target
from harness.session.discovery import Suite, load_package_cases


class LimitationClaim(msgspec.Struct, frozen=True):
    """What one cell says of the entry that speaks of it.

    Attributes:
        entry: the entry, as messages name it.
        reach: how many cells a plain run and the targets asked for have of it.
        declared: whether the target declares the case unsupported, whatever the entry says.
    """

    entry: str
    reach: int
    declared: bool

    def to_json(self) -> str:
        """For a report's property."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> LimitationClaim:
        """Inverse of :meth:`to_json`."""
        return msgspec.json.decode(text, type=cls)


class LimitationClaims:
    """What all cells of a session said."""

    def __init__(self) -> None:
        self._declared: dict[tuple[str, int], int] = {}
        self._live: set[str] = set()

    def add(self, claim: LimitationClaim) -> None:
        """Count one cell."""
        if claim.declared:
            key = claim.entry, claim.reach
            self._declared[key] = self._declared.get(key, 0) + 1
        else:
            self._live.add(claim.entry)

    def problems(self) -> list[str]:
        """The stale entries, a line each."""
        return [
            f"limitation {entry} is stale: all {cells} of its cells are declared unsupported; "
            "remove or narrow the entry"
            for (entry, reach), cells in self._declared.items()
            if entry not in self._live and cells >= reach
        ]


def make_claim(
    cell: Cell, case: Case, suite: Suite, selected: Iterable[Target] | None
) -> LimitationClaim | None:
    """What a finished cell says of the limitation that speaks of it; None without one.

    Args:
        cell: its record.
        case: its case.
        suite: where the case is from.
        selected: the targets asked for; None for a plain run.
    """
    entry = find_limitation(suite.declared, case, Target.parse(cell.target))
    if entry is None:
        return None
    package = suite.name.rpartition(".")[0]
    declared = cell.status is Status.UNSUPPORTED and cell.limitation is None
    chosen = None if selected is None else tuple(selected)
    reach = _reach(entry, suite.declared, suite.path.parent, chosen) if declared else 0
    return LimitationClaim(f"{entry.case} on {entry.target} of {package}", reach, declared)


@functools.cache
def _reach(
    entry: Limitation,
    limitations: tuple[Limitation, ...],
    folder: Path,
    selected: tuple[Target, ...] | None,
) -> int:
    cells = {
        (case.name, target)
        for case in load_package_cases(folder)
        for among in (None, selected)
        for target in registry.select_targets(case, among)
        if find_limitation(limitations, case, target) is entry
    }
    return len(cells)
