"""Numbers of one cell that became worse: delegation, size, numerics, time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from reports import text
from reports.comparison.diff.kinds import ChangeKind, Thresholds
from reports.comparison.snapshot import CellFacts, MetricFacts, OutputFacts


@dataclass(frozen=True)
class Regression:
    """One number that became worse.

    Attributes:
        kind: the kind of change.
        detail: the change as text, with units.
        old: the value before.
        new: the value now.
        unit: unit of both values: ``dB``, ``× bound``, ``B``, ``delegates``, ``calls``, ``s``,
            ``of 4`` for the rank of a severity, or a metric's name.
        amount: how much worse, for ordering within a kind; infinite if the number became
            undefined.
        ops: for lost delegation, the operators with the number of calls lost.
    """

    kind: ChangeKind
    detail: str
    old: float
    new: float
    unit: str
    amount: float
    ops: tuple[tuple[str, int], ...] = ()


def find_regressions(
    before: CellFacts, after: CellFacts, limits: Thresholds, *, times: bool
) -> Iterator[Regression]:
    """Find the numbers of a cell that became worse by at least their threshold.

    Args:
        before: the cell before.
        after: the cell now.
        limits: the thresholds.
        times: whether the times of the two cells can be compared.
    """
    if before.lowered and after.lowered:
        yield from _delegation(before, after, limits)
    yield from _size(
        ChangeKind.BYTES_UP,
        before.program_bytes,
        after.program_bytes,
        limits.bytes_up,
        limits.bytes_up_percent,
    )
    yield from _size(
        ChangeKind.PLANNED_MEMORY_UP,
        before.planned_memory,
        after.planned_memory,
        limits.planned_memory_up,
        limits.planned_memory_up_percent,
    )
    yield from _severity(before, after)
    if before.executed and after.executed:
        yield from _numerics(before, after, limits)
        for name, old in before.metrics.items():
            if name in after.metrics:
                yield from _metric(name, old, after.metrics[name], limits)
        if times and before.seconds is not None and after.seconds is not None:
            yield from _time(before.seconds, after.seconds, limits)


def _delegates_any(facts: CellFacts) -> bool:
    return bool(facts.delegates or facts.delegated_ops)


def _delegation(before: CellFacts, after: CellFacts, limits: Thresholds) -> Iterator[Regression]:
    fallen = {
        op: number - after.delegated_ops.get(op, 0)
        for op, number in before.delegated_ops.items()
        if number > after.delegated_ops.get(op, 0)
    }
    left = {
        op: number - before.undelegated_ops.get(op, 0)
        for op, number in after.undelegated_ops.items()
        if number > before.undelegated_ops.get(op, 0)
    }
    nothing = _delegates_any(before) and not _delegates_any(after)
    # An op that the graph no longer has, or that became other delegated ops, is not lost: there
    # must be a new fallback node.
    if (fallen and left) or nothing:
        number = sum(fallen.values())
        if number >= limits.ops_lost or nothing:
            detail = f"no longer delegated: {text.calls(fallen)}" if fallen else ""
            if left:
                detail += f"{'; ' if detail else ''}fallback now: {text.calls(left)}"
            if nothing:
                detail = f"nothing is delegated now; {detail}".rstrip("; ")
            yield Regression(
                ChangeKind.DELEGATION_LOST,
                detail,
                sum(before.delegated_ops.values()),
                sum(after.delegated_ops.values()),
                "calls",
                number,
                tuple(text.by_count(fallen)),
            )
    more = after.delegates - before.delegates
    # One delegate after none is not fragmentation.
    if before.delegates and more >= max(1, limits.delegates_up):
        detail = f"{before.delegates:,} → {text.count(after.delegates, 'delegate')}"
        yield Regression(
            ChangeKind.DELEGATES_UP, detail, before.delegates, after.delegates, "delegates", more
        )


def _size(
    kind: ChangeKind, old: int, new: int, least: int, least_percent: float
) -> Iterator[Regression]:
    if old <= 0 or new <= old or new - old < least:
        return
    percent = 100 * (new - old) / old
    if percent >= least_percent:
        detail = f"{text.size(old)} → {text.size(new)} (+{percent:.1f} %)"
        yield Regression(kind, detail, old, new, "B", percent)


def _severity(before: CellFacts, after: CellFacts) -> Iterator[Regression]:
    old, new = before.severity, after.severity
    # Records of schema 3 and before have no severity.
    if old is not None and new is not None and new.rank > old.rank:
        detail = f"{old.value} → {new.value}"
        yield Regression(
            ChangeKind.MORE_SEVERE, detail, old.rank, new.rank, "of 4", new.rank - old.rank
        )


def _numerics(before: CellFacts, after: CellFacts, limits: Thresholds) -> Iterator[Regression]:
    known = {(item.call, item.output): item for item in before.outputs}
    now = {(item.call, item.output): item for item in after.outputs}
    if gone := known.keys() - now.keys():
        call, output = min(gone)
        detail = (
            f"{len(known):,} → {text.count(len(now), 'output')} compared; missing now: "
            f"output {output} of call {call}"
        )
        yield Regression(
            ChangeKind.NUMERICS_WORSE, detail, len(known), len(now), "outputs", math.inf
        )
    pairs = [(item, now[key]) for key, item in known.items() if key in now]
    sqnr = (_sqnr(old, new, limits) for old, new in pairs)
    yield from _worst(sqnr)
    yield from _worst(_bound(old, new, limits) for old, new in pairs)
    yield from _worst(_quality(old, new, limits) for old, new in pairs)


def _worst(found: Iterator[Regression | None]) -> Iterator[Regression]:
    made = [item for item in found if item is not None]
    if made:
        yield max(made, key=lambda item: item.amount)


def _sqnr(old: OutputFacts, new: OutputFacts, limits: Thresholds) -> Regression | None:
    if math.isnan(old.sqnr_db):
        return None
    drop = _drop(min(old.sqnr_db, limits.sqnr_ceiling_db), min(new.sqnr_db, limits.sqnr_ceiling_db))
    if math.isnan(new.sqnr_db):
        drop = math.inf
    return _find_fall(ChangeKind.NUMERICS_WORSE, old, new, (old.sqnr_db, new.sqnr_db), drop,
                   limits.sqnr_drop_db)  # fmt: skip


def _quality(old: OutputFacts, new: OutputFacts, limits: Thresholds) -> Regression | None:
    a, b = old.model_sqnr_db, new.model_sqnr_db
    if a is None or math.isnan(a):
        return None
    b = math.nan if b is None else b
    drop = math.inf if math.isnan(b) else _drop(
        min(a, limits.sqnr_ceiling_db), min(b, limits.sqnr_ceiling_db)
    )  # fmt: skip
    return _find_fall(ChangeKind.QUALITY_WORSE, old, new, (a, b), drop, limits.quality_drop_db)


def _metric(
    name: str, old: MetricFacts, new: MetricFacts, limits: Thresholds
) -> Iterator[Regression]:
    """Compare the distances from the model's own figure: which side is good is not known."""
    before, now = (abs(_drop(each.model, each.value)) for each in (old, new))
    if math.isnan(before):
        return
    rise = math.inf if math.isnan(now) else now - before
    least = max(
        before * limits.metric_up_percent / 100, limits.metric_up * max(1.0, abs(new.model))
    )
    if rise > 0 and not rise < least:
        detail = f"{name} {old.value:.4g} → {new.value:.4g}, {new.model:.4g} in the model"
        yield Regression(ChangeKind.QUALITY_WORSE, detail, old.value, new.value, name, rise)


def _drop(old: float, new: float) -> float:
    # Two equal infinities differ by NaN.
    return 0.0 if old == new else old - new


def _find_fall(
    kind: ChangeKind,
    old: OutputFacts,
    new: OutputFacts,
    values: tuple[float, float],
    drop: float,
    limit: float,
) -> Regression | None:
    if drop <= 0 or drop < limit:
        return None
    a, b = values
    by = f" (−{drop:.1f} dB)" if math.isfinite(drop) and math.isfinite(a - b) else ""
    detail = f"SQNR {text.decibels(a)} → {text.decibels(b)}{by}, {_describe_output(new)}"
    return Regression(kind, detail, a, b, "dB", drop)


def _bound(old: OutputFacts, new: OutputFacts, limits: Thresholds) -> Regression | None:
    a, b = old.bound_used, new.bound_used
    if math.isnan(a):
        return None
    rise = math.inf if math.isnan(b) else -_drop(a, b)
    if rise <= 0 or rise < limits.bound_used_up:
        return None
    detail = f"error uses {text.bound_use(a)} → {text.bound_use(b)}, {_describe_output(new)}"
    return Regression(ChangeKind.BOUND_UP, detail, a, b, "× bound", rise)


def _describe_output(item: OutputFacts) -> str:
    return f"output {item.output} of call {item.call}"


def _time(old: float, new: float, limits: Thresholds) -> Iterator[Regression]:
    if not (math.isfinite(old) and math.isfinite(new)) or old <= 0:
        return
    if new / old >= limits.time_factor and new - old >= limits.time_up_seconds and new > old:
        detail = f"{text.seconds(old)} → {text.seconds(new)} ({new / old:.1f}×)"
        yield Regression(ChangeKind.TIME_UP, detail, old, new, "s", new / old)
