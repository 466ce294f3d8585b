"""The kinds of change between two runs, and the thresholds that make a number one."""

from __future__ import annotations

import enum
import math

import msgspec

from harness.errors import UsageError


class Kind(enum.Enum):
    """What happened to a cell, worst first. The value is its spelling everywhere."""

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
    LIMITATION_GONE = "limitation-gone"
    FIXED = "fixed"

    @property
    def label(self) -> str:
        """The words that stand for it."""
        return self.value.replace("-", " ")

    @property
    def meaning(self) -> str:
        """What it says, for legends and help."""
        return _MEANINGS[self]

    @property
    def rank(self) -> int:
        """Position in the order of badness: 0 is worst."""
        return _RANKS[self]

    @property
    def leads(self) -> bool:
        """Whether numbers that are worse follow from it: a cell that fails has wrong ones."""
        return self in _LEADING

    @property
    def follows(self) -> bool:
        """Whether it follows from a change of the same cell that leads, and is no other news."""
        return self in _FOLLOWING

    @property
    def is_worse(self) -> bool:
        """Whether it is news of a loss; what was failing before is not news."""
        return self.rank < Kind.STILL_FAILING.rank


_LEADING = {
    Kind.NEWLY_CRASHED,
    Kind.NEWLY_FAILING,
    Kind.NEWLY_TIMED_OUT,
    Kind.FAILS_OTHERWISE,
    Kind.LIMITATION_APPEARED,
}
_FOLLOWING = {Kind.MORE_SEVERE, Kind.NUMERICS_WORSE, Kind.BOUND_UP, Kind.QUALITY_WORSE}
_RANKS = {kind: rank for rank, kind in enumerate(Kind)}

_MEANINGS = {
    Kind.NEWLY_CRASHED: "the process dies now",
    Kind.NEWLY_FAILING: "a mismatch or a failure now, and was not red before",
    Kind.NEWLY_TIMED_OUT: "does not end within its time limit any more",
    Kind.NEWLY_XPASSED: "passes although a limitation says it cannot: the entry is stale",
    Kind.FAILS_OTHERWISE: "was red and is red, with another outcome, stage or error",
    Kind.MORE_SEVERE: "a mismatch before and now, expected or not, and more severe now",
    Kind.DISAPPEARED: "neither expected nor recorded any more",
    Kind.NOT_RUN: "expected, but without a record",
    Kind.NEWLY_UNAVAILABLE: "its backend is not here any more; nothing was tried",
    Kind.NEWLY_LOWERED: "was executed, and is only lowered now",
    Kind.NEWLY_UNSUPPORTED: "the target declares now that it does not do this",
    Kind.LIMITATION_APPEARED: "fails now as a limitation predicts, and was not red before",
    Kind.SIGNAL_LOST: "a vacuous pass now, and was conclusive before",
    Kind.DELEGATION_LOST: "the backend takes fewer calls, and they are left over",
    Kind.RUNTIME_CHANGED: "another runtime executed it",
    Kind.NUMERICS_WORSE: "SQNR against the float64 oracle fell, or an output is not compared",
    Kind.BOUND_UP: "the error uses more of its bound",
    Kind.QUALITY_WORSE: "SQNR against the float model before quantization fell",
    Kind.DELEGATES_UP: "the program is cut into more delegates",
    Kind.BYTES_UP: "the program is larger",
    Kind.PLANNED_MEMORY_UP: "the program plans more memory for values",
    Kind.TIME_UP: "took longer on the same host",
    Kind.STILL_FAILING: "red before and now, in the same way",
    Kind.CHANGED: "another outcome, neither better nor worse",
    Kind.EXPLAINED: "was red, and fails now as a limitation predicts",
    Kind.APPEARED: "was not there before",
    Kind.NEWLY_EXECUTED: "passes now, and was not executed before",
    Kind.SIGNAL_GAINED: "a conclusive pass now, and was a vacuous one before",
    Kind.LIMITATION_GONE: "passes now, and was xfailed before",
    Kind.FIXED: "passes now, and was red before",
}


class Thresholds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From where on a number counts as worse.

    Attributes:
        sqnr_drop_db: fall of an output's SQNR, in dB.
        sqnr_ceiling_db: SQNRs above this, in dB, are alike: there only rounding differs.
        quality_drop_db: fall of ``model_sqnr_db`` of quantized cells, in dB.
        bound_used_up: rise of the share of the bound that is used.
        bytes_up_percent: growth of the program in percent; ``bytes_up`` bytes must be reached
            as well.
        bytes_up: growth of the program in bytes.
        planned_memory_up_percent: growth of the planned memory in percent; ``planned_memory_up``
            bytes must be reached as well.
        planned_memory_up: growth of the planned memory in bytes.
        delegates_up: additional delegates.
        ops_lost: calls that the backend took before and does not take any more.
        time_factor: time now / time before; ``time_up_seconds`` must be reached as well.
        time_up_seconds: additional seconds.
    """

    sqnr_drop_db: float = 3.0
    sqnr_ceiling_db: float = 140.0
    quality_drop_db: float = 1.0
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
            # A NaN compares false with everything: the check behind it could not fail.
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise UsageError(f"threshold {name} is {value}; give a finite number from 0 on")
