"""Diff: the changes between two runs, as values. Other modules of the package render them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from harness.record.run import Run
from reports import text
from reports.comparison.diff.environment import (
    EnvironmentChange,
    environment_changes,
    times_comparable,
)
from reports.comparison.diff.kinds import ChangeKind, Thresholds
from reports.comparison.diff.measures import find_regressions
from reports.comparison.diff.signature import signature
from reports.comparison.diff.transition import classify_transition
from reports.comparison.snapshot import CellFacts, RunSnapshot, take_snapshot
from reports.outcome import CellOutcome, severity_rank


@dataclass(frozen=True)
class Change:
    """One change of one cell. A cell can have several, of different kinds.

    Attributes:
        kind: the kind of change.
        id: the cell, ``case@backend:recipe``.
        before: the cell before; None if that run does not have it.
        after: the cell now; None if this run does not have it.
        detail: the change as one line of text, with units; may quote text of the record.
        old: for a number that became worse, its value before.
        new: its value now.
        unit: unit of both values.
        amount: how much worse, for ordering within a kind.
        ops: for lost delegation, the operators with the number of calls lost.
        followers: changes of the cell that follow from this one; they are not counted separately.
    """

    kind: ChangeKind
    id: str
    before: CellFacts | None
    after: CellFacts | None
    detail: str = ""
    old: float | None = None
    new: float | None = None
    unit: str = ""
    amount: float = 0.0
    ops: tuple[tuple[str, int], ...] = ()
    followers: tuple[Change, ...] = ()

    @property
    def description(self) -> str:
        """The change as text, with the changes that follow from it."""
        more = (f"with it {each.kind.label}: {each.detail}" for each in self.followers)
        return "; ".join([self.detail, *more])

    @property
    def cell(self) -> CellFacts:
        """The cell now; the cell before if it disappeared."""
        found = self.after or self.before
        assert found is not None, "a change has at least one side"
        return found

    @property
    def op(self) -> str:
        """The operator; if the record has none, the first part of the case's name."""
        return self.cell.op or self.cell.case.partition("/")[0]

    @property
    def target(self) -> str:
        """``backend:recipe``."""
        return self.cell.target

    @property
    def order(self) -> tuple[int, int, float, str]:
        """Sort key: by kind, then the most severe mismatches first."""
        after = self.after
        severity = 0 if after is None else severity_rank(after.outcome, after.severity)
        return self.kind.rank, -severity, -self.amount, self.id

    @property
    def signature(self) -> str:
        """How the cell fails now, without text that differs from run to run; empty if it passes."""
        return signature(self.after) if self.after else ""

    @property
    def outcomes(self) -> tuple[CellOutcome | None, CellOutcome | None]:
        """Outcomes before and now; None for a run without the cell."""
        return (
            self.before.outcome if self.before else None,
            self.after.outcome if self.after else None,
        )


@dataclass(frozen=True)
class Diff:
    """The changes between two runs.

    Attributes:
        before: the older run, or a baseline.
        after: the newer run.
        environment: differences of seed, commit, packages, host and so on.
        changes: all changes, worst first.
        remarks: comparisons that were not possible and why, one line each.
        compared: number of cells that both runs have.
        untimed: number of cells whose times could not be compared, by target.
    """

    before: RunSnapshot
    after: RunSnapshot
    environment: list[EnvironmentChange]
    changes: list[Change]
    remarks: list[str] = field(default_factory=list)
    compared: int = 0
    untimed: Counter[str] = field(default_factory=Counter)

    @property
    def counts(self) -> Counter[ChangeKind]:
        """Number of changes of each kind."""
        return Counter(change.kind for change in self.changes)

    @property
    def worse(self) -> list[Change]:
        """The changes for the worse."""
        return [change for change in self.changes if change.kind.is_worse]

    def select_kind(self, *kinds: ChangeKind) -> list[Change]:
        """The changes of the given kinds."""
        return [change for change in self.changes if change.kind in kinds]

    def by_op(self) -> dict[str, list[Change]]:
        """Changes by operator, the operator with most changes for the worse first."""
        return group_changes(self.changes, lambda change: change.op)

    def by_target(self) -> dict[str, list[Change]]:
        """Changes by target, the target with most changes for the worse first."""
        return group_changes(self.changes, lambda change: change.target)

    def by_signature(self) -> dict[str, list[Change]]:
        """Changes to a failing outcome by error, the largest group first."""
        failing = [change for change in self.changes if change.signature]
        return group_changes(failing, lambda change: change.signature)


def group_changes(
    changes: Iterable[Change], key: Callable[[Change], str]
) -> dict[str, list[Change]]:
    """Group changes by a key; groups with most changes for the worse first, then by name."""
    groups: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        groups[key(change)].append(change)

    def order(item: tuple[str, list[Change]]) -> tuple[int, int, str]:
        losses = sum(change.kind.is_worse for change in item[1])
        return -losses, -len(item[1]), item[0]

    return dict(sorted(groups.items(), key=order))


def diff(
    before: Run | RunSnapshot,
    after: Run | RunSnapshot,
    thresholds: Thresholds | Callable[[str], Thresholds] | None = None,
    *,
    times_across_hosts: bool = False,
) -> Diff:
    """Compare two runs, cell by cell.

    Only numbers that became worse are changes. Swap the arguments to get improvements.

    Args:
        before: a run or a stored baseline.
        after: a run or a stored baseline.
        thresholds: the change from which a number counts as worse, or a function of the target.
        times_across_hosts: compare times even if the hosts differ.
    """
    old, new = take_snapshot(before), take_snapshot(after)
    limits = thresholds if callable(thresholds) else _always(thresholds or Thresholds())
    changes: list[Change] = []
    compared = 0
    untimed: Counter[str] = Counter()
    timed_runs = old.has_times and new.has_times
    for name in dict.fromkeys([*old.cells, *new.cells]):
        a, b = old.cells.get(name), new.cells.get(name)
        kind = classify_transition(a, b)
        found = [] if kind is None else [Change(kind, name, a, b, _detail(a, b))]
        if a is not None and b is not None:
            compared += 1
            timed = timed_runs and (times_across_hosts or times_comparable(old, new, (a, b)))
            untimed[b.target] += not timed
            found += _compare_measures(name, a, b, limits(b.target), times=timed)
        changes += _fold_changes(found)
    changes.sort(key=lambda change: change.order)
    remarks = []
    if not timed_runs:
        remarks.append("times were not compared: the baseline has no times")
    elif number := untimed.total():
        remarks.append(
            f"times of {text.count(number, 'cell')} were not compared: they ran on other hosts"
        )
    remarks += [f"before is incomplete: {reason}" for reason in old.incomplete]
    remarks += [f"after is incomplete: {reason}" for reason in new.incomplete]
    return Diff(old, new, environment_changes(old, new), changes, remarks, compared, +untimed)


def _fold_changes(found: list[Change]) -> list[Change]:
    """The changes of one cell, with consequences attached to the change that causes them."""
    if not found or not found[0].kind.has_consequences:
        return found
    first, *rest = found
    followers = tuple(change for change in rest if change.kind.is_consequence)
    return [
        replace(first, followers=followers),
        *(one for one in rest if not one.kind.is_consequence),
    ]


def _always(limits: Thresholds) -> Callable[[str], Thresholds]:
    return lambda target: limits


def _compare_measures(
    name: str, before: CellFacts, after: CellFacts, limits: Thresholds, *, times: bool
) -> Iterable[Change]:
    for item in find_regressions(before, after, limits, times=times):
        yield Change(item.kind, name, before, after, item.detail, item.old, item.new, item.unit,
                     item.amount, item.ops)  # fmt: skip
    if before.executed and after.executed and before.runtime != after.runtime:
        detail = f"{before.runtime} → {after.runtime}"
        yield Change(ChangeKind.RUNTIME_CHANGED, name, before, after, detail)


def _detail(before: CellFacts | None, after: CellFacts | None) -> str:
    old = before.words if before else "absent"
    new = after.words if after else "absent"
    if after is None:
        return f"{old} → {new}"
    where = f" in {after.stage}" if after.stage and not after.outcome.is_pass else ""
    why = after.limitation if after.outcome is CellOutcome.XFAILED else ""
    why = why or ("" if after.outcome.is_pass else after.error)
    return f"{old} → {new}{where}{': ' if why else ''}{why}"
