"""The judgement of a run against a baseline under a policy, as a value.

Red is what is certainly worse. What keeps a run from being judged is an obstacle. A run is green
only when it has neither; a certain red counts although there are obstacles.
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
    """What came of a gate; the value is the exit code."""

    GREEN = 0
    RED = 1
    UNJUDGED = 2

    @property
    def words(self) -> str:
        """How reports call it."""
        return {0: "green", 1: "red", 2: "could not judge"}[self.value]


@dataclass(frozen=True)
class Judgement:
    """What a gate found.

    Attributes:
        colour: the result.
        found: the diff it rests on, of the judged cells only.
        red: changes that the policy makes red, worst first.
        waived: changes that a valid waiver excuses.
        known: cells that fail as they did in the baseline, unless the policy makes them red.
        noted: other changes for the worse, which the policy allows.
        mild: changes that would be red and are of mismatches below the policy's severity, worst
            first.
        waivers: what is wrong with waivers, a line each; red.
        obstacles: why the run cannot be called green, a line each.
        warnings: what a reader must know besides.
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
        """What the result rests on, in one sentence."""
        parts = [
            (len(self.red), "red change"),
            (len(self.waivers), "waiver problem"),
            (len(self.obstacles), "obstacle"),
            (len(self.waived), "waived change"),
            (len(self.known), "known failure"),
            (len(self.mild), "change below the severity"),
        ]
        shown = [text.count(number, noun) for number, noun in parts if number]
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
    """Judge a run.

    Args:
        baseline: what it is held against.
        run: the run.
        policy: what is red.
        today: the day that waivers are held against; by default the current one, in UTC.
        subset: declares the run to be narrower than the baseline, with at least so many
            conclusive cells; overrides the policy's ``subset_min_cells``.
    """
    today = today or datetime.datetime.now(datetime.UTC).date()
    subset = policy.subset_min_cells if subset is None else subset
    old, new = _selected(take_snapshot(baseline), policy), _selected(take_snapshot(run), policy)
    found = diff(old, new, policy.limits)
    changes = sorted(
        [*found.changes, *_over_limit(old, new, policy, found)],
        key=lambda change: change.order,
    )
    valid = [waiver for waiver in policy.waiver if today <= waiver.expires]
    red: list[Change] = []
    waived: list[tuple[Change, Waiver]] = []
    rest: list[Change] = []
    mild: list[Change] = []
    # What follows from a change is judged with it, unless the policy lets that pass.
    queue = deque(changes)
    while queue:
        change = queue.popleft()
        by = next((waiver for waiver in valid if _excuses(waiver, change)), None)
        if by is not None:
            waived.append((change, by))
        elif change.kind not in policy.red_kinds(change.target):
            rest.append(change)
            queue.extendleft(reversed(change.followers))
        elif policy.is_tolerated(change):
            mild.append(change)
            # What else is known of the same error follows; its quality was not rated.
            queue.extendleft(each for each in change.followers if not policy.is_tolerated(each))
        else:
            red.append(change)
    fatal, hindering = obstacles.find_obstacles(found, rest, policy, subset)
    expired, unmatched = _waiver_problems(policy, changes, new, today, subset)
    if fatal or hindering:
        # In a run that is not whole, a waiver may match what is not there yet.
        later, unmatched = unmatched, []
        hindering = [*hindering, *later]
    problems = [*expired, *unmatched]
    if fatal:
        colour = Colour.UNJUDGED
    elif red or problems:
        colour = Colour.RED
    else:
        colour = Colour.UNJUDGED if hindering else Colour.GREEN
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
        obstacles=[*fatal, *hindering],
        warnings=obstacles.warnings(found, subset),
        judged=len(new.cells),
    )


def _selected(run: RunSnapshot, policy: Policy) -> RunSnapshot:
    cells = {name: cell for name, cell in run.cells.items() if matches_any_glob(policy.cells, name)}
    return msgspec.structs.replace(run, cells=cells)


def _over_limit(
    old: RunSnapshot, new: RunSnapshot, policy: Policy, found: Diff
) -> Iterable[Change]:
    """Cells that use more of their bound than the policy's limit, and did not before."""
    already = {change.id for change in found.select_kind(ChangeKind.BOUND_UP)}
    for name, cell in new.cells.items():
        limit, used = policy.limits(cell.target).bound_used_limit, cell.worst_bound_used
        # What is outside its bound is a mismatch, or an expected one.
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
    """Expired waivers, and those that match nothing."""
    expired, unmatched = [], []
    for waiver in policy.waiver:
        if waiver.expires < today:
            expired.append(
                f"{waiver.title} expired on {waiver.expires} (owner {waiver.owner}); fix the "
                "cause, or extend it with a reason"
            )
        elif not any(_excuses(waiver, each) for one in changes for each in (one, *one.followers)):
            # A narrower run says nothing of cells that it did not select.
            spoken_of = any(matches_any_glob(waiver.cell, name) for name in run.cells)
            if subset is None or spoken_of:
                unmatched.append(
                    f"{waiver.title} matches no such change (owner {waiver.owner}); remove it"
                )
    return expired, unmatched
