"""Find stale limitations: the targets declare every one of their cells unsupported.

No run can confirm or refute such an entry, and it reads as a defect. Only a run with all cells of
an entry shows that the entry is stale.
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
    """The evidence of one cell about the limitation that applies to it.

    Attributes:
        entry: the limitation, as messages name it.
        reach: the number of its cells in a plain run and on the selected targets together.
        declared: whether the target declares the case unsupported, regardless of the limitation.
    """

    entry: str
    reach: int
    declared: bool

    def to_json(self) -> str:
        """Encode the claim for a property of a pytest report."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> LimitationClaim:
        """Inverse of :meth:`to_json`."""
        return msgspec.json.decode(text, type=cls)


class LimitationClaims:
    """The claims of all cells of a session."""

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
        """Return a line for each stale limitation."""
        return [
            f"limitation {entry} is stale: all {cells} of its cells are declared unsupported; "
            "remove or narrow the entry"
            for (entry, reach), cells in self._declared.items()
            if entry not in self._live and cells >= reach
        ]


def make_claim(
    cell: Cell, case: Case, suite: Suite, selected: Iterable[Target] | None
) -> LimitationClaim | None:
    """Return a finished cell's claim about the limitation that applies to it; None without one.

    Args:
        cell: its record.
        case: its case.
        suite: the suite of the case.
        selected: the selected targets; None for a plain run.
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
