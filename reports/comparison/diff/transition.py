"""The kind of change from one outcome of a cell to another."""

from __future__ import annotations

from reports.comparison.diff.kinds import ChangeKind
from reports.comparison.diff.signature import signature
from reports.comparison.snapshot import CellFacts
from reports.outcome import CellOutcome

_NEWLY_RED = {
    CellOutcome.MISMATCH: ChangeKind.NEWLY_FAILING,
    CellOutcome.FAILED: ChangeKind.NEWLY_FAILING,
    CellOutcome.CRASHED: ChangeKind.NEWLY_CRASHED,
    CellOutcome.TIMEOUT: ChangeKind.NEWLY_TIMED_OUT,
    CellOutcome.XPASSED: ChangeKind.NEWLY_XPASSED,
}

_NOT_TRIED = {
    CellOutcome.NOT_RUN: ChangeKind.NOT_RUN,
    CellOutcome.UNAVAILABLE: ChangeKind.NEWLY_UNAVAILABLE,
    CellOutcome.UNSUPPORTED: ChangeKind.NEWLY_UNSUPPORTED,
}


def classify_transition(before: CellFacts | None, after: CellFacts | None) -> ChangeKind | None:
    """The kind of change from one outcome to another; None if nothing changed.

    A cell is None if the run neither expected nor recorded it. A new cell that is red is newly
    failing, not only new.
    """
    if after is None:
        return None if before is None else ChangeKind.DISAPPEARED
    if after.outcome.is_red:
        return _to_red(before, after)
    if before is None:
        # A missing record is a change for the worse even for a new cell.
        return ChangeKind.NOT_RUN if after.outcome is CellOutcome.NOT_RUN else ChangeKind.APPEARED
    if after.outcome.is_pass:
        return _to_pass(before, after)
    if after.outcome is before.outcome:
        return None
    if after.outcome is CellOutcome.VACUOUS:
        # Red before counts as conclusive too: a vacuous pass does not fix a failure.
        return ChangeKind.SIGNAL_LOST if before.outcome.is_conclusive else ChangeKind.CHANGED
    if after.outcome in _NOT_TRIED:
        return _NOT_TRIED[after.outcome]
    if after.outcome is CellOutcome.XFAILED:
        return ChangeKind.EXPLAINED if before.outcome.is_red else ChangeKind.LIMITATION_APPEARED
    # The remaining outcome is lowered only: worse for a cell that was executed.
    return ChangeKind.NEWLY_LOWERED if before.outcome.is_conclusive else ChangeKind.CHANGED


def _to_red(before: CellFacts | None, after: CellFacts) -> ChangeKind:
    if before is None or not before.outcome.is_red:
        return _NEWLY_RED[after.outcome]
    if before.outcome is after.outcome:
        alike = signature(before) == signature(after)
        return ChangeKind.STILL_FAILING if alike else ChangeKind.FAILS_OTHERWISE
    # A crash after a failure is worse and must not be listed with known failures.
    kind = _NEWLY_RED[after.outcome]
    return ChangeKind.FAILS_OTHERWISE if kind is ChangeKind.NEWLY_FAILING else kind


def _to_pass(earlier: CellFacts, after: CellFacts) -> ChangeKind | None:
    before = earlier.outcome
    if before.is_pass:
        return _change_quality(earlier, after)
    if before.is_red:
        return ChangeKind.FIXED
    if before is CellOutcome.VACUOUS:
        return ChangeKind.SIGNAL_GAINED
    return (
        ChangeKind.LIMITATION_GONE if before is CellOutcome.XFAILED else ChangeKind.NEWLY_EXECUTED
    )


def _change_quality(before: CellFacts, after: CellFacts) -> ChangeKind | None:
    was, is_now = (each.outcome is CellOutcome.DEGRADED for each in (before, after))
    has_quality = before.quality_db is not None and after.quality_db is not None
    if was == is_now or not (has_quality or before.metrics.keys() & after.metrics.keys()):
        return None  # an earlier release measured neither
    return ChangeKind.DEGRADED_NEWLY if is_now else ChangeKind.DEGRADED_NO_LONGER
