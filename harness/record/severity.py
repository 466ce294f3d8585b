"""How wrong the outputs of a mismatch are, in four words. Imports no torch."""

from __future__ import annotations

import enum
from collections.abc import Iterable


class Severity(enum.Enum):
    """How far wrong outputs are from the reference, the least first. The value is its spelling.

    docs/numerics.md derives the borders; :mod:`harness.numerics.metrics.severity` computes them.
    """

    NEGLIGIBLE = "negligible"  # no element is off by more than rounding the output's size would be
    MINOR = "minor"  # every element has at least half of the digits of its dtype
    MAJOR = "major"  # some element has fewer
    CRITICAL = "critical"  # the output no longer resembles the reference

    @property
    def rank(self) -> int:
        """1 for negligible to 4 for critical."""
        return _RANKS[self]

    @property
    def meaning(self) -> str:
        """One line for legends."""
        return _MEANINGS[self]


_RANKS = {severity: rank for rank, severity in enumerate(Severity, start=1)}

_MEANINGS = {
    Severity.NEGLIGIBLE: "no wrong element is off by more than rounding in the output's dtype",
    Severity.MINOR: "every wrong element keeps at least half of the digits of the output's dtype",
    Severity.MAJOR: "a wrong element keeps fewer than half of the digits of the output's dtype",
    Severity.CRITICAL: "the output no longer resembles the reference",
}


def find_worst(severities: Iterable[Severity | None]) -> Severity | None:
    """The most severe of some outputs; None where none of them is wrong."""
    found = [each for each in severities if each is not None]
    return max(found, key=lambda each: each.rank, default=None)
