"""What it means that a cell ended one way before and another way now."""

from __future__ import annotations

from reports.comparison.diff.kinds import Kind
from reports.comparison.diff.signature import signature
from reports.comparison.snapshot import CellFacts
from reports.outcome import Outcome

_NEWLY_RED = {
    Outcome.MISMATCH: Kind.NEWLY_FAILING,
    Outcome.FAILED: Kind.NEWLY_FAILING,
    Outcome.CRASHED: Kind.NEWLY_CRASHED,
    Outcome.TIMEOUT: Kind.NEWLY_TIMED_OUT,
    Outcome.XPASSED: Kind.NEWLY_XPASSED,
}

_NOT_TRIED = {
    Outcome.NOT_RUN: Kind.NOT_RUN,
    Outcome.UNAVAILABLE: Kind.NEWLY_UNAVAILABLE,
    Outcome.UNSUPPORTED: Kind.NEWLY_UNSUPPORTED,
}


def transition(before: CellFacts | None, after: CellFacts | None) -> Kind | None:
    """The one kind of a pair of outcomes; None when nothing changed.

    ``None`` for a cell means that the run neither expected nor recorded it. A cell that is
    there for the first time and red is newly failing, not just new.
    """
    if after is None:
        return None if before is None else Kind.DISAPPEARED
    if after.outcome.is_red:
        return _to_red(before, after)
    if before is None:
        # Expected without a record is a loss whether or not the cell was there before.
        return Kind.NOT_RUN if after.outcome is Outcome.NOT_RUN else Kind.APPEARED
    if after.outcome.is_pass:
        return _to_pass(before.outcome)
    if after.outcome is before.outcome:
        return None
    if after.outcome is Outcome.VACUOUS:
        # Red before as well: a failure is not mended by outputs that cannot fail.
        return Kind.SIGNAL_LOST if before.outcome.is_conclusive else Kind.CHANGED
    if after.outcome in _NOT_TRIED:
        return _NOT_TRIED[after.outcome]
    if after.outcome is Outcome.XFAILED:
        return Kind.EXPLAINED if before.outcome.is_red else Kind.LIMITATION_APPEARED
    # What is left is lowered only: a loss for what was executed.
    return Kind.NEWLY_LOWERED if before.outcome.is_conclusive else Kind.CHANGED


def _to_red(before: CellFacts | None, after: CellFacts) -> Kind:
    if before is None or not before.outcome.is_red:
        return _NEWLY_RED[after.outcome]
    if before.outcome is after.outcome:
        alike = signature(before) == signature(after)
        return Kind.STILL_FAILING if alike else Kind.FAILS_OTHERWISE
    # From a failure to a crash is worse, and must not hide among what was known.
    kind = _NEWLY_RED[after.outcome]
    return Kind.FAILS_OTHERWISE if kind is Kind.NEWLY_FAILING else kind


def _to_pass(before: Outcome) -> Kind | None:
    if before.is_pass:
        return None
    if before.is_red:
        return Kind.FIXED
    if before is Outcome.VACUOUS:
        return Kind.SIGNAL_GAINED
    return Kind.LIMITATION_GONE if before is Outcome.XFAILED else Kind.NEWLY_EXECUTED
