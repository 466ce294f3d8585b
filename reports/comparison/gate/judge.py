"""Judge a run by its changes from a baseline, under a policy.

A change that the policy forbids is red. A reason why the run cannot be judged is an obstacle. A run
is green only without both. A red change counts even if there are obstacles, unless the two runs
cannot be compared at all.
"""

from __future__ import annotations

import datetime
import enum
import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from harness.record.run import Run
from harness.record.target import matches_any_glob
from reports import text
from reports.comparison.diff import Change, ChangeKind, Diff, diff
from reports.comparison.gate import obstacles
from reports.comparison.gate.policy import Policy, Waiver
from reports.comparison.snapshot import RunSnapshot, take_snapshot


class Colour(enum.Enum):
    """The result of a gate; the value is the exit code."""

    GREEN = 0
    RED = 1
    UNJUDGED = 2

    @property
    def words(self) -> str:
        """The result as reports print it."""
        return {0: "green", 1: "red", 2: "could not judge"}[self.value]


@dataclass(frozen=True)
class Judgement:
    """The result of a gate and its reasons.

    Attributes:
        colour: the result.
        found: the diff of the judged cells.
        red: changes that the policy forbids, worst first.
        waived: changes that a valid waiver excuses, with the waiver.
        known: cells that fail as in the baseline, unless the policy makes them red.
        noted: other changes for the worse that the policy allows.
        mild: mismatches below the policy's severity, which are not red for that reason, worst
            first.
        waivers: problems of waivers, one line each; they are red.
        obstacles: reasons why the run cannot be green, one line each.
        warnings: other facts that a reader must know.
        judged: number of cells that were judged.
    """

    colour: Colour
    found: Diff
    red: list[Change]
    waived: list[tuple[Change, Waiver]]
    known: list[Change]
    noted: list[Change]
    mild: list[Change]
    waivers: list[str]
    obstacles: list[str]
    warnings: list[str]
    judged: int

    @property
    def exit_code(self) -> int:
        """0 green, 1 red, 2 could not judge."""
        return self.colour.value

    @property
    def sentence(self) -> str:
        """The counts behind the result, in one sentence."""
        parts: list[tuple[int, str, *tuple[str, ...]]] = [
            (len(self.red), "red change"),
            (len(self.waivers), "waiver problem"),
            (len(self.obstacles), "obstacle"),
            (len(self.waived), "waived change"),
            (len(self.known), "known failure"),
            (
                len(self.mild),
                "mismatch below severity_at_least",
                "mismatches below severity_at_least",
            ),
        ]
        shown = [text.count(number, *nouns) for number, *nouns in parts if number]
        judged = f"{text.count(self.judged, 'cell')} judged"
        return ", ".join([judged, *(shown or ["nothing red"])])


def judge(
    baseline: Run | RunSnapshot,
    run: Run | RunSnapshot,
    policy: Policy,
    *,
    today: datetime.date | None = None,
    subset: int | None = None,
) -> Judgement:
    """Judge a run under a policy.

    Args:
        baseline: the run or stored baseline to compare with.
        run: the run to judge.
        policy: the rules.
        today: the date for the expiry of waivers; by default the current one, in UTC.
        subset: declares that the runs have selected cells, and requires at least this many
            conclusive cells; overrides the policy's numbers of cells and its required targets.
    """
    today = today or datetime.datetime.now(datetime.UTC).date()
    if subset is None:
        subset = policy.subset_min_cells
    else:
        policy = policy.without_counts()
    old, new = (
        _select_cells(take_snapshot(baseline), policy),
        _select_cells(take_snapshot(run), policy),
    )
    found = diff(old, new, policy.find_thresholds)
    changes = sorted(
        [*found.changes, *_over_limit(old, new, policy, found)],
        key=lambda change: change.order,
    )
    valid = [waiver for waiver in policy.waiver if today <= waiver.expires]
    red: list[Change] = []
    waived: list[tuple[Change, Waiver]] = []
    rest: list[Change] = []
    mild: list[Change] = []
    # Consequences are judged with their change. If the policy allows that, judge them alone.
    queue = deque(changes)
    while queue:
        change = queue.popleft()
        by = next((waiver for waiver in valid if _excuses(waiver, change)), None)
        if by is not None:
            waived.append((change, by))
        elif change.kind not in policy.find_red_kinds(change.target):
            rest.append(change)
            queue.extendleft(reversed(change.followers))
        elif policy.is_tolerated(change):
            mild.append(change)
            # Judge those consequences that have no severity, such as a lower quality.
            queue.extendleft(each for each in change.followers if not policy.is_tolerated(each))
        else:
            red.append(change)
    fatal, others = obstacles.find_obstacles(found, rest, policy, subset)
    expired, unmatched = _waiver_problems(policy, changes, new, today, subset)
    if fatal or others:
        # In an incomplete run, a waiver may match a cell that has not run yet.
        later, unmatched = unmatched, []
        others = [*others, *later]
    problems = [*expired, *unmatched]
    if fatal:
        colour = Colour.UNJUDGED
    elif red or problems:
        colour = Colour.RED
    else:
        colour = Colour.UNJUDGED if others else Colour.GREEN
    return Judgement(
        colour=colour,
        found=found,
        red=red,
        waived=waived,
        known=[change for change in rest if change.kind is ChangeKind.STILL_FAILING],
        noted=[
            change
            for change in rest
            if change.kind.is_worse and change.kind not in obstacles.LOSSES
        ],
        mild=mild,
        waivers=problems,
        obstacles=[*fatal, *others],
        warnings=obstacles.list_warnings(found, subset),
        judged=len(new.cells),
    )


def _select_cells(run: RunSnapshot, policy: Policy) -> RunSnapshot:
    cells = {name: cell for name, cell in run.cells.items() if matches_any_glob(policy.cells, name)}
    return msgspec.structs.replace(run, cells=cells)


def _over_limit(
    old: RunSnapshot, new: RunSnapshot, policy: Policy, found: Diff
) -> Iterable[Change]:
    """Cells that use more of their bound than the policy's limit, and did not before."""
    already = {change.id for change in found.select_kind(ChangeKind.BOUND_UP)}
    for name, cell in new.cells.items():
        limit, used = policy.find_thresholds(cell.target).bound_used_limit, cell.worst_bound_used
        # An output outside its bound is already a mismatch, or an expected one.
        if limit is None or used is None or not cell.outcome.is_pass or name in already:
            continue
        before = old.cells.get(name)
        was = before.worst_bound_used if before is not None else None
        # Not "used > limit": a NaN is over every limit.
        if used <= limit or (was is not None and not was <= limit):
            continue
        detail = f"error uses {text.bound_use(used)}, over the policy's {limit:g}×"
        if was is not None:
            detail += f"; before {text.bound_use(was)}"
        amount = math.inf if math.isnan(used) else used - limit
        yield Change(ChangeKind.BOUND_UP, name, before, cell, detail, was, used, "× bound", amount)


def _excuses(waiver: Waiver, change: Change) -> bool:
    return change.kind in waiver.kind and matches_any_glob(waiver.cell, change.id)


def _waiver_problems(
    policy: Policy,
    changes: list[Change],
    run: RunSnapshot,
    today: datetime.date,
    subset: int | None,
) -> tuple[list[str], list[str]]:
    """Describe waivers that expired and waivers that match no change."""
    expired, unmatched = [], []
    for waiver in policy.waiver:
        if waiver.expires < today:
            expired.append(
                f"{waiver.title} expired on {waiver.expires} (owner {waiver.owner}); fix the "
                "cause, or extend it with a reason"
            )
        elif not any(_excuses(waiver, each) for one in changes for each in (one, *one.followers)):
            # A subset has no result for cells that it did not select.
            is_selected = any(matches_any_glob(waiver.cell, name) for name in run.cells)
            if subset is None or is_selected:
                unmatched.append(
                    f"{waiver.title} matches no change (owner {waiver.owner}); remove it"
                )
    return expired, unmatched
