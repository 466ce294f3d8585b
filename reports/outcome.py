"""CellOutcome: a cell's status as reports show it, with a label, a symbol and a meaning.

Reports tell four outcomes apart that :class:`harness.record.cell.Status` does not: a pass with
nothing delegated, a degraded pass, a vacuous pass, and an expected cell without a record. A
mismatch also has a severity.
"""

from __future__ import annotations

import enum

from harness.record.cell import Cell, Status
from harness.record.severity import Severity


class CellOutcome(enum.Enum):
    """How one cell ended. The order is that of bars and columns in reports."""

    PASSED = "passed"
    UNDELEGATED = "undelegated"
    DEGRADED = "degraded"
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
    def from_cell(cls, cell: Cell | None) -> CellOutcome:
        """The outcome of a record, or of its absence."""
        if cell is None:
            return cls.NOT_RUN
        if cell.status is Status.PASSED:
            if not cell.is_conclusive:
                return cls.VACUOUS
            if cell.is_degraded:
                return cls.DEGRADED
            if cell.delegation.is_empty:
                return cls.UNDELEGATED
        return cls(cell.status.value)

    @property
    def label(self) -> str:
        """The name that reports show."""
        return _TEXTS[self][0]

    @property
    def symbol(self) -> str:
        """One character, so that colour is never the only sign."""
        return _TEXTS[self][1]

    @property
    def meaning(self) -> str:
        """An explanation for legends."""
        return _TEXTS[self][2]

    @property
    def is_red(self) -> bool:
        """Whether one such cell makes a run fail."""
        return self in _RED

    @property
    def is_pass(self) -> bool:
        """Whether the cell executed with every output within its bound, and not vacuously."""
        return self in (CellOutcome.PASSED, CellOutcome.UNDELEGATED, CellOutcome.DEGRADED)

    @property
    def is_conclusive(self) -> bool:
        """Whether the cell is evidence for or against conformance: passed, red or xfailed."""
        return self.is_pass or self.is_red or self is CellOutcome.XFAILED

    @property
    def is_rated(self) -> bool:
        """Whether the cell counts in the denominator of the pass rate."""
        return self is not CellOutcome.UNSUPPORTED

    @property
    def badness(self) -> int:
        """Larger is worse; orders failures and picks the worst of several records."""
        return _BADNESS.index(self)


def severity_rank(outcome: CellOutcome, severity: Severity | None) -> int:
    """How severe a mismatch is, for sorting: 1 (negligible) to 4 (critical).

    A mismatch of an older record without a severity counts as 4, every other outcome as 0.
    """
    if severity is not None:
        return severity.rank
    return Severity.CRITICAL.rank if outcome is CellOutcome.MISMATCH else 0


def words(outcome: CellOutcome, severity: Severity | None) -> str:
    """An outcome with the severity of its mismatch: ``mismatch, critical``; ``xfailed, minor``."""
    return outcome.label if severity is None else f"{outcome.label}, {severity.value}"


_WITHOUT_STATUS = {
    CellOutcome.UNDELEGATED,
    CellOutcome.DEGRADED,
    CellOutcome.VACUOUS,
    CellOutcome.NOT_RUN,
}
_RED = {each for each in CellOutcome if each not in _WITHOUT_STATUS and Status(each.value).is_red}

_TEXTS = {
    CellOutcome.PASSED: ("passed, delegated", "✓", "executed, within its bound"),
    CellOutcome.UNDELEGATED: (
        "passed, nothing delegated",
        "○",
        "executed, within its bound, but no node was delegated",
    ),
    CellOutcome.DEGRADED: (
        "passed, degraded",
        "◐",
        "the backend computed the graph, but the model no longer does its job: the error of "
        "quantization is more than twice what its roundings explain, or more than half of the "
        "output; or a metric is beyond the limit of its case",
    ),
    CellOutcome.VACUOUS: (
        "vacuous pass",
        "◌",
        "within its bound, but a constant output would pass too at all but a few elements; "
        "no evidence, not counted as passed",
    ),
    CellOutcome.MISMATCH: ("mismatch", "≠", "executed, and an output is outside its bound"),
    CellOutcome.FAILED: ("failed", "✕", "a stage raised, or a requirement does not hold"),
    CellOutcome.CRASHED: ("crashed", "!", "the process died or ran out of memory"),
    CellOutcome.TIMEOUT: ("timeout", "T", "did not end within its time limit"),
    CellOutcome.XPASSED: ("xpassed", "P", "passed although a limitation predicts a failure"),
    CellOutcome.XFAILED: ("xfailed", "x", "failed as a limitation predicts"),
    CellOutcome.LOWERED: ("lowered only", "L", "lowered, but this host cannot execute the program"),
    CellOutcome.UNSUPPORTED: ("unsupported", "–", "the target does not support this case"),
    CellOutcome.UNAVAILABLE: (
        "unavailable",
        "∅",
        "the backend, or a package of the case, is not installed",
    ),
    CellOutcome.NOT_RUN: ("not run", "?", "expected, but the run has no record of it"),
}

_BADNESS = [
    CellOutcome.PASSED,
    CellOutcome.UNDELEGATED,
    CellOutcome.DEGRADED,
    CellOutcome.VACUOUS,
    CellOutcome.UNSUPPORTED,
    CellOutcome.LOWERED,
    CellOutcome.UNAVAILABLE,
    CellOutcome.XFAILED,
    CellOutcome.NOT_RUN,
    CellOutcome.XPASSED,
    CellOutcome.TIMEOUT,
    CellOutcome.FAILED,
    CellOutcome.MISMATCH,
    CellOutcome.CRASHED,
]
