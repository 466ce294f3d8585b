"""Outcome: a status as reports show it, with its word, its sign and what it means.

Three words more than :class:`harness.record.cell.Status`: a pass in which the backend took nothing
is not the same news as a pass, one that a constant would have got is no evidence at all, and an
expected cell without a record is not run. A mismatch has a severity besides.
"""

from __future__ import annotations

import enum

from harness.record.cell import Cell, Status
from harness.record.severity import Severity


class Outcome(enum.Enum):
    """What came of one cell, in the order in which bars and columns show it."""

    PASSED = "passed"
    UNDELEGATED = "undelegated"
    VACUOUS = "vacuous"
    MISMATCH = "mismatch"
    FAILED = "failed"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    XPASSED = "xpassed"
    XFAILED = "xfailed"
    LOWERED = "lowered"
    UNSUPPORTED = "unsupported"
    UNAVAILABLE = "unavailable"
    NOT_RUN = "not_run"

    @classmethod
    def of(cls, cell: Cell | None) -> Outcome:
        """The outcome of a record, or of its absence."""
        if cell is None:
            return cls.NOT_RUN
        if cell.status is Status.PASSED:
            if not cell.is_conclusive:
                return cls.VACUOUS
            if cell.delegation.delegates == 0:
                return cls.UNDELEGATED
        return cls(cell.status.value)

    @property
    def label(self) -> str:
        """The words that stand for it."""
        return _TEXTS[self][0]

    @property
    def symbol(self) -> str:
        """One character, so that colour is never the only sign."""
        return _TEXTS[self][1]

    @property
    def meaning(self) -> str:
        """What it says, for legends."""
        return _TEXTS[self][2]

    @property
    def is_red(self) -> bool:
        """Whether it alone makes a run fail."""
        return self not in _WITHOUT_STATUS and Status(self.value).is_red

    @property
    def is_pass(self) -> bool:
        """Whether the cell executed, every output is within its bound, and that says something."""
        return self in (Outcome.PASSED, Outcome.UNDELEGATED)

    @property
    def is_conclusive(self) -> bool:
        """Whether it says something of conformance: passed, red, or failed as predicted."""
        return self.is_pass or self.is_red or self is Outcome.XFAILED

    @property
    def badness(self) -> int:
        """Larger is worse; orders failures and picks the worst of several records."""
        return _BADNESS.index(self)


def severity_rank(outcome: Outcome, severity: Severity | None) -> int:
    """How severe a mismatch is, for sorting: 1 for negligible to 4 for critical, and as much where
    an older record does not say; 0 for every other outcome."""
    if severity is not None:
        return severity.rank
    return Severity.CRITICAL.rank if outcome is Outcome.MISMATCH else 0


def words(outcome: Outcome, severity: Severity | None) -> str:
    """An outcome with the severity of its mismatch: ``mismatch, critical``; ``xfailed, minor``."""
    return outcome.label if severity is None else f"{outcome.label}, {severity.value}"


_WITHOUT_STATUS = {Outcome.UNDELEGATED, Outcome.VACUOUS, Outcome.NOT_RUN}

_TEXTS = {
    Outcome.PASSED: ("passed, delegated", "✓", "executed, within its bound"),
    Outcome.UNDELEGATED: (
        "passed, nothing delegated",
        "○",
        "executed within its bound, but the backend took no node",
    ),
    Outcome.VACUOUS: (
        "vacuous pass",
        "◌",
        "within its bound, but a constant would pass in place of its outputs at all but a few "
        "elements: no evidence",
    ),
    Outcome.MISMATCH: ("mismatch", "≠", "executed, and an output is outside its bound"),
    Outcome.FAILED: ("failed", "✕", "a stage raised, or a requirement does not hold"),
    Outcome.CRASHED: ("crashed", "!", "the process died, or was refused memory"),
    Outcome.TIMEOUT: ("timeout", "T", "did not end within its time limit"),
    Outcome.XPASSED: ("xpassed", "P", "passed although a limitation says it cannot"),
    Outcome.XFAILED: ("xfailed", "x", "failed as a known limitation predicts"),
    Outcome.LOWERED: ("lowered only", "L", "lowered; nothing on this host can execute it"),
    Outcome.UNSUPPORTED: ("unsupported", "–", "the target declares that it does not do this"),
    Outcome.UNAVAILABLE: ("unavailable", "∅", "the backend is not here; nothing was tried"),
    Outcome.NOT_RUN: ("not run", "?", "expected, but there is no record"),
}

_BADNESS = [
    Outcome.PASSED,
    Outcome.UNDELEGATED,
    Outcome.VACUOUS,
    Outcome.UNSUPPORTED,
    Outcome.LOWERED,
    Outcome.UNAVAILABLE,
    Outcome.XFAILED,
    Outcome.NOT_RUN,
    Outcome.XPASSED,
    Outcome.TIMEOUT,
    Outcome.FAILED,
    Outcome.MISMATCH,
    Outcome.CRASHED,
]
