"""The kinds of change between two runs, and the thresholds from which a number is a change."""

from __future__ import annotations

import enum
import math

import msgspec

from harness.errors import UsageError


class ChangeKind(enum.Enum):
    """A kind of change of one cell, the worst kind first. The value is its name everywhere."""

    NEWLY_CRASHED = "newly-crashed"
    NEWLY_FAILING = "newly-failing"
    NEWLY_TIMED_OUT = "newly-timed-out"
    NEWLY_XPASSED = "newly-xpassed"
    FAILS_OTHERWISE = "fails-otherwise"
    MORE_SEVERE = "more-severe"
    DISAPPEARED = "disappeared"
    NOT_RUN = "not-run"
    NEWLY_UNAVAILABLE = "newly-unavailable"
    NEWLY_LOWERED = "newly-lowered"
    NEWLY_UNSUPPORTED = "newly-unsupported"
    LIMITATION_APPEARED = "limitation-appeared"
    SIGNAL_LOST = "signal-lost"
    DEGRADED_NEWLY = "degraded-newly"
    DELEGATION_LOST = "delegation-lost"
    RUNTIME_CHANGED = "runtime-changed"
    NUMERICS_WORSE = "numerics-worse"
    BOUND_UP = "bound-up"
    QUALITY_WORSE = "quality-worse"
    DELEGATES_UP = "delegates-up"
    BYTES_UP = "bytes-up"
    PLANNED_MEMORY_UP = "planned-memory-up"
    TIME_UP = "time-up"
    STILL_FAILING = "still-failing"
    CHANGED = "changed"
    EXPLAINED = "explained"
    APPEARED = "appeared"
    NEWLY_EXECUTED = "newly-executed"
    SIGNAL_GAINED = "signal-gained"
    DEGRADED_NO_LONGER = "degraded-no-longer"
    LIMITATION_GONE = "limitation-gone"
    FIXED = "fixed"

    @property
    def label(self) -> str:
        """The name that reports show."""
        return self.value.replace("-", " ")

    @property
    def meaning(self) -> str:
        """An explanation for legends and help."""
        return _MEANINGS[self]

    @property
    def rank(self) -> int:
        """Position in the order of badness: 0 is worst."""
        return _RANKS[self]

    @property
    def has_consequences(self) -> bool:
        """Whether it causes worse numbers: a failing cell has wrong numbers."""
        return self in _LEADING

    @property
    def is_consequence(self) -> bool:
        """Whether it follows from another change of the same cell that has consequences."""
        return self in _FOLLOWING

    @property
    def is_worse(self) -> bool:
        """Whether it is a new change for the worse; cells that failed before do not count."""
        return self.rank < ChangeKind.STILL_FAILING.rank


_LEADING = {
    ChangeKind.NEWLY_CRASHED,
    ChangeKind.NEWLY_FAILING,
    ChangeKind.NEWLY_TIMED_OUT,
    ChangeKind.FAILS_OTHERWISE,
    ChangeKind.LIMITATION_APPEARED,
}
_FOLLOWING = {
    ChangeKind.MORE_SEVERE,
    ChangeKind.NUMERICS_WORSE,
    ChangeKind.BOUND_UP,
    ChangeKind.QUALITY_WORSE,
}
_RANKS = {kind: rank for rank, kind in enumerate(ChangeKind)}

_MEANINGS = {
    ChangeKind.NEWLY_CRASHED: "crashes now, did not crash before",
    ChangeKind.NEWLY_FAILING: "mismatch or failure now, not red before",
    ChangeKind.NEWLY_TIMED_OUT: "exceeds its time limit now, did not before",
    ChangeKind.NEWLY_XPASSED: "passes although a limitation predicts failure: the entry is stale",
    ChangeKind.FAILS_OTHERWISE: "red before and now, with another outcome, stage or error",
    ChangeKind.MORE_SEVERE: "mismatch before and now, expected or not, more severe now",
    ChangeKind.DISAPPEARED: "neither expected nor recorded now",
    ChangeKind.NOT_RUN: "expected, but has no record",
    ChangeKind.NEWLY_UNAVAILABLE: "its backend is unavailable now; the cell did not run",
    ChangeKind.NEWLY_LOWERED: "executed before, only lowered now",
    ChangeKind.NEWLY_UNSUPPORTED: "the target declares it unsupported now",
    ChangeKind.LIMITATION_APPEARED: "fails now as a limitation predicts, not red before",
    ChangeKind.SIGNAL_LOST: "vacuous pass now, conclusive before",
    ChangeKind.DEGRADED_NEWLY: "too far from the float model now, near enough before",
    ChangeKind.DELEGATION_LOST: "fewer calls are delegated, and more are fallback nodes",
    ChangeKind.RUNTIME_CHANGED: "executed by another runtime",
    ChangeKind.NUMERICS_WORSE: "lower SQNR against the float64 oracle, or an output not compared",
    ChangeKind.BOUND_UP: "the error uses more of its bound",
    ChangeKind.QUALITY_WORSE: "farther from the float model: a lower SQNR, or a metric",
    ChangeKind.DELEGATES_UP: "the program has more delegates",
    ChangeKind.BYTES_UP: "the program is larger",
    ChangeKind.PLANNED_MEMORY_UP: "the program plans more memory for values",
    ChangeKind.TIME_UP: "slower on the same host",
    ChangeKind.STILL_FAILING: "red before and now, with the same error",
    ChangeKind.CHANGED: "another outcome, neither better nor worse",
    ChangeKind.EXPLAINED: "red before, fails now as a limitation predicts",
    ChangeKind.APPEARED: "not in the run before",
    ChangeKind.NEWLY_EXECUTED: "passes now, not executed before",
    ChangeKind.SIGNAL_GAINED: "conclusive pass now, vacuous before",
    ChangeKind.DEGRADED_NO_LONGER: "near enough to the float model now, too far before",
    ChangeKind.LIMITATION_GONE: "passes now, xfailed before",
    ChangeKind.FIXED: "passes now, red before",
}


class Thresholds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The changes from which a number counts as worse.

    Attributes:
        sqnr_drop_db: decrease of an output's SQNR, in dB.
        sqnr_ceiling_db: SQNRs above this, in dB, count as equal: they differ by rounding only.
        quality_drop_db: decrease of ``model_sqnr_db`` of quantized cells, in dB.
        metric_up_percent: growth, in percent, of the distance of a metric from the float model's
            figure; ``metric_up`` must be reached too.
        metric_up: growth of that distance, as a share of the model's figure; of 1 where that is
            smaller.
        bound_used_up: increase of the bound used.
        bytes_up_percent: growth of the program in percent; ``bytes_up`` must be reached too.
        bytes_up: growth of the program in bytes.
        planned_memory_up_percent: growth of the planned memory in percent; ``planned_memory_up``
            must be reached too.
        planned_memory_up: growth of the planned memory in bytes.
        delegates_up: number of additional delegates.
        ops_lost: number of calls that are not delegated now and were before.
        time_factor: time now / time before; ``time_up_seconds`` must be reached too.
        time_up_seconds: additional seconds.
    """

    sqnr_drop_db: float = 3.0
    sqnr_ceiling_db: float = 140.0
    quality_drop_db: float = 1.0
    metric_up_percent: float = 10.0
    metric_up: float = 0.02
    bound_used_up: float = 0.25
    bytes_up_percent: float = 5.0
    bytes_up: int = 256
    planned_memory_up_percent: float = 5.0
    planned_memory_up: int = 1024
    delegates_up: int = 1
    ops_lost: int = 1
    time_factor: float = 2.0
    time_up_seconds: float = 1.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            # A NaN compares false with everything, so the check could never fail.
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise UsageError(f"threshold {name} is {value}; give a finite number >= 0")
