"""Diff: what changed between two runs, as values; renderers are beside it."""

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
from reports.comparison.diff.kinds import Kind, Thresholds
from reports.comparison.diff.measures import measures
from reports.comparison.diff.signature import signature
from reports.comparison.diff.transition import transition
from reports.comparison.snapshot import CellFacts, Snapshot, take
from reports.outcome import Outcome, severity_rank


@dataclass(frozen=True)
class Change:
    """One change of one cell. A cell can have several, of different kinds.

    Attributes:
        kind: what happened.
        id: the cell, ``case@backend:recipe``.
        before: the cell before; None when it was not there.
        after: the cell now; None when it is not there.
        detail: the change in words, one line, with units; may quote texts of the record.
        old: for a number that became worse, its value before.
        new: its value now.
        unit: of both.
        amount: how much worse, for ordering within a kind.
        ops: for lost delegation, the operators with the number of calls lost.
        followers: changes of the cell that follow from this one, and are not counted beside it.
    """

    kind: Kind
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
    def said(self) -> str:
        """The change in words, with what follows from it."""
        more = (f"with it {each.kind.label}: {each.detail}" for each in self.followers)
        return "; ".join([self.detail, *more])

    @property
    def cell(self) -> CellFacts:
        """The cell now, or what it was when it is gone."""
        found = self.after or self.before
        assert found is not None, "a change has at least one side"
        return found

    @property
    def op(self) -> str:
        """The operator, or what stands for it in the name."""
        return self.cell.op or self.cell.case.partition("/")[0]

    @property
    def target(self) -> str:
        """``backend:recipe``."""
        return self.cell.target

    @property
    def order(self) -> tuple[int, int, float, str]:
        """Sorts changes: by kind, the most severe mismatches of a kind first."""
        after = self.after
        severity = 0 if after is None else severity_rank(after.outcome, after.severity)
        return self.kind.rank, -severity, -self.amount, self.id

    @property
    def signature(self) -> str:
        """How the cell fails now, without what differs from run to run; empty if it does not."""
        return signature(self.after) if self.after else ""

    @property
    def outcomes(self) -> tuple[Outcome | None, Outcome | None]:
        """Before and now; None where the cell is not there."""
        return (
            self.before.outcome if self.before else None,
            self.after.outcome if self.after else None,
        )


@dataclass(frozen=True)
class Diff:
    """What changed between two runs.

    Attributes:
        before: the run, or baseline, compared with.
        after: the run that is looked at.
        environment: in what the two differ besides their cells.
        changes: all changes, worst first.
        remarks: what could not be compared and why, a line each.
        compared: number of cells that both have.
        untimed: by target, the number of cells whose times could not be compared.
    """

    before: Snapshot
    after: Snapshot
    environment: list[EnvironmentChange]
    changes: list[Change]
    remarks: list[str] = field(default_factory=list)
    compared: int = 0
    untimed: Counter[str] = field(default_factory=Counter)

    @property
    def counts(self) -> Counter[Kind]:
        """Number of changes of each kind."""
        return Counter(change.kind for change in self.changes)

    @property
    def worse(self) -> list[Change]:
        """The changes that are losses."""
        return [change for change in self.changes if change.kind.is_worse]

    def of(self, *kinds: Kind) -> list[Change]:
        """The changes of some kinds."""
        return [change for change in self.changes if change.kind in kinds]

    def by_op(self) -> dict[str, list[Change]]:
        """Changes by operator, the operator with most losses first."""
        return grouped(self.changes, lambda change: change.op)

    def by_target(self) -> dict[str, list[Change]]:
        """Changes by target, the target with most losses first."""
        return grouped(self.changes, lambda change: change.target)

    def by_signature(self) -> dict[str, list[Change]]:
        """Changes to a failing outcome by what fails, the largest group first."""
        failing = [change for change in self.changes if change.signature]
        return grouped(failing, lambda change: change.signature)


def grouped(changes: Iterable[Change], key: Callable[[Change], str]) -> dict[str, list[Change]]:
    """Changes by a key, those with most losses first, then by name."""
    groups: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        groups[key(change)].append(change)

    def order(item: tuple[str, list[Change]]) -> tuple[int, int, str]:
        losses = sum(change.kind.is_worse for change in item[1])
        return -losses, -len(item[1]), item[0]

    return dict(sorted(groups.items(), key=order))


def diff(
    before: Run | Snapshot,
    after: Run | Snapshot,
    thresholds: Thresholds | Callable[[str], Thresholds] | None = None,
    *,
    times_across_hosts: bool = False,
) -> Diff:
    """Compare two runs, cell by cell. What became better is what the reverse says got worse.

    Args:
        before: a run or a stored baseline.
        after: a run or a stored baseline.
        thresholds: from where on a number counts as worse, or a function of the target.
        times_across_hosts: compare times although the hosts differ.
    """
    old, new = take(before), take(after)
    limits = thresholds if callable(thresholds) else _always(thresholds or Thresholds())
    changes: list[Change] = []
    compared = 0
    untimed: Counter[str] = Counter()
    timed_runs = old.has_times and new.has_times
    for name in dict.fromkeys([*old.cells, *new.cells]):
        a, b = old.cells.get(name), new.cells.get(name)
        kind = transition(a, b)
        found = [] if kind is None else [Change(kind, name, a, b, _detail(a, b))]
        if a is not None and b is not None:
            compared += 1
            timed = timed_runs and (times_across_hosts or times_comparable(old, new, (a, b)))
            untimed[b.target] += not timed
            found += _measured(name, a, b, limits(b.target), times=timed)
        changes += _folded(found)
    changes.sort(key=lambda change: change.order)
    remarks = []
    if not timed_runs:
        remarks.append("times were not compared: the baseline has none")
    elif number := untimed.total():
        remarks.append(
            f"times of {text.count(number, 'cell')} were not compared: they ran on other hosts"
        )
    remarks += [f"before is incomplete: {reason}" for reason in old.incomplete]
    remarks += [f"after is incomplete: {reason}" for reason in new.incomplete]
    return Diff(old, new, environment_changes(old, new), changes, remarks, compared, +untimed)


def _folded(found: list[Change]) -> list[Change]:
    """The changes of one cell, those that follow from its first under that."""
    if not found or not found[0].kind.leads:
        return found
    first, *rest = found
    followers = tuple(change for change in rest if change.kind.follows)
    return [replace(first, followers=followers), *(one for one in rest if not one.kind.follows)]


def _always(limits: Thresholds) -> Callable[[str], Thresholds]:
    return lambda target: limits


def _measured(
    name: str, before: CellFacts, after: CellFacts, limits: Thresholds, *, times: bool
) -> Iterable[Change]:
    for item in measures(before, after, limits, times=times):
        yield Change(item.kind, name, before, after, item.detail, item.old, item.new, item.unit,
                     item.amount, item.ops)  # fmt: skip
    if before.executed and after.executed and before.runtime != after.runtime:
        detail = f"{before.runtime} → {after.runtime}"
        yield Change(Kind.RUNTIME_CHANGED, name, before, after, detail)


def _detail(before: CellFacts | None, after: CellFacts | None) -> str:
    old = before.words if before else "not there"
    new = after.words if after else "not there"
    if after is None:
        return f"{old} → {new}"
    where = f" in {after.stage}" if after.stage and not after.outcome.is_pass else ""
    why = after.limitation if after.outcome is Outcome.XFAILED else ""
    why = why or ("" if after.outcome.is_pass else after.error)
    return f"{old} → {new}{where}{': ' if why else ''}{why}"
