"""What keeps a gate from calling a run green although nothing in it is red."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from harness.record.cell import CacheOrigin
from harness.record.target import matches_any_glob
from reports import text
from reports.comparison.diff import Change, ChangeKind, Diff
from reports.comparison.gate.policy import CachedPolicy, Policy
from reports.comparison.snapshot import RunSnapshot
from reports.moment import parse_time
from reports.outcome import CellOutcome

_LENGTH = 500

#: A cell of the baseline that this run says nothing of.
LOSSES = (
    ChangeKind.DISAPPEARED,
    ChangeKind.NOT_RUN,
    ChangeKind.NEWLY_UNAVAILABLE,
    ChangeKind.NEWLY_LOWERED,
)

# pytest's exit codes: all well, some failed; what is above says that the session itself broke.
_FAILED = 1


def find_obstacles(
    found: Diff, rest: list[Change], policy: Policy, subset: int | None
) -> tuple[list[str], list[str]]:
    """What makes the two incomparable, and what merely hinders.

    Args:
        found: the diff of the judged cells.
        rest: changes that are neither red nor waived.
        policy: what is asked of a run.
        subset: the declared minimum of a narrower run, if it is one.
    """
    old, new = found.before, found.after
    fatal = [*_incomparable(old, new)]
    hindering = [
        *(f"the run is incomplete: {reason}" for reason in new.incomplete),
        *_ending(old, new),
        *_backends(old, new, subset),
        *_machines(old, new, subset),
        *_losses(rest, subset),
        *_numbers(new, policy, subset),
        *_cached(new, policy),
        *_untimed(found, policy),
        *_unused_targets(found, policy),
    ]
    if old.incomplete and not old.stored:
        hindering += [f"the baseline is incomplete: {reason}" for reason in old.incomplete]
    return [text.line(item, _LENGTH) for item in fatal], [
        text.line(item, _LENGTH) for item in hindering
    ]


def warnings(found: Diff, subset: int | None) -> list[str]:
    """What does not decide and must be known."""
    lines = [
        f"the baseline was accepted incomplete: {reason}"
        for reason in found.before.incomplete
        if found.before.stored
    ]
    if subset is not None:
        gone = len(found.select_kind(ChangeKind.DISAPPEARED))
        lines.append(
            f"declared a subset of at least {text.count(subset, 'cell')}: "
            f"{text.count(gone, 'cell')} of the baseline were not looked at"
        )
    return [text.line(item, _LENGTH) for item in lines]


def _incomparable(old: RunSnapshot, new: RunSnapshot) -> list[str]:
    lines = []
    if not old.cells:
        lines.append("no cell of the baseline is selected by the policy, or it is empty")
    if not new.cells:
        lines.append("no cell of the run is selected by the policy, or the run is empty")
    both = [(cell, new.cells[name]) for name, cell in old.cells.items() if name in new.cells]
    unlike = [pair for pair in both if pair[0].seed != pair[1].seed]
    if unlike:
        a, b = unlike[0]
        lines.append(
            f"{text.count(len(unlike), 'cell')} ran with another seed: {a.seed} in the baseline, "
            f"{b.seed} now; inputs and weights are not the same"
        )
    return lines


def _ending(old: RunSnapshot, new: RunSnapshot) -> list[str]:
    info = new.info
    fresh = [line for line in info.problems if line not in old.info.problems]
    lines = [f"the run had a problem: {line}" for line in fresh[:10]]
    if len(fresh) > 10:
        lines.append(f"and {len(fresh) - 10:,} more problems")
    status = info.exit_status
    if status is not None and status not in (0, _FAILED):
        lines.append(f"the run ended with exit status {status}: the session itself broke")
    red = any(cell.outcome.is_red for cell in new.cells.values())
    if status == _FAILED and not red and not info.problems and _is_whole(new):
        lines.append("the run ended with exit status 1, and no cell or problem of it says why")
    expected = set(info.expected)
    stray = [name for name in new.cells if name not in expected]
    if stray:
        lines.append(
            f"{text.count(len(stray), 'cell')} have a record and were not expected: {stray[0]}"
        )
    return lines


def _is_whole(run: RunSnapshot) -> bool:
    # A policy that judges some cells leaves out those that may have made the run fail.
    return len(run.cells) >= len(run.info.expected)


def _backends(old: RunSnapshot, new: RunSnapshot, subset: int | None) -> list[str]:
    used = {cell.target.partition(":")[0] for cell in old.cells.values()}
    lines = []
    for name, state in old.info.backends.items():
        now = new.info.backends.get(name)
        if name not in used or not state.available:
            continue
        if now is None and subset is None:
            lines.append(f"backend {name} of the baseline is missing in the run")
        elif now is not None and not now.available:
            lines.append(f"backend {name} is unavailable: {now.reason or 'no reason recorded'}")
    return lines


def _machines(old: RunSnapshot, new: RunSnapshot, subset: int | None) -> list[str]:
    # Where parts overlap, all cells have a record although a host is missing.
    if subset is not None or not old.info.merged_from:
        return []
    there = {place.machine for place in new.environments}
    gone = sorted({place.machine for place in old.environments} - there)
    return [f"no part of the run is of machine type {machine or 'unknown'}" for machine in gone]


def _losses(rest: list[Change], subset: int | None) -> list[str]:
    lines = []
    for kind in LOSSES:
        lost = [change.id for change in rest if change.kind is kind]
        if lost and not (kind is ChangeKind.DISAPPEARED and subset is not None):
            more = f" and {len(lost) - 1:,} more" if len(lost) > 1 else ""
            lines.append(f"{kind.label}: {kind.meaning}: {lost[0]}{more}")
    return lines


def _numbers(new: RunSnapshot, policy: Policy, subset: int | None) -> list[str]:
    counts = Counter(cell.target for cell in new.cells.values() if cell.outcome.is_conclusive)
    total = counts.total()
    lines = []
    if new.cells and not any(cell.outcome.is_pass for cell in new.cells.values()):
        lines.append("no judged cell passed")
    lines += _without_signal(new)
    for wanted, who in ((policy.min_cells, "the policy"), (subset or 0, "the declared subset")):
        if total < wanted:
            lines.append(
                f"{text.count(total, 'cell')} came to a conclusion, {who} asks for {wanted:,}"
            )
    for target in policy.required_targets:
        if not counts[target]:
            lines.append(f"required target {target}: no cell came to a conclusion")
    spoken = {target: policy.find_target_policy(target) for target in {*new.targets}}
    for target, entry in sorted(spoken.items()):
        if entry is not None and counts[target] < entry.min_cells:
            lines.append(
                f"target {target}: {text.count(counts[target], 'cell')} came to a conclusion, "
                f"the policy asks for {entry.min_cells:,}"
            )
    return lines


def _without_signal(new: RunSnapshot) -> list[str]:
    """Targets whose passes are all vacuous."""
    conclusive = {cell.target for cell in new.cells.values() if cell.outcome.is_pass}
    empty = Counter(
        cell.target for cell in new.cells.values() if cell.outcome is CellOutcome.VACUOUS
    )
    return [
        f"target {target}: none of its {text.count(number, 'pass', 'passes')} is conclusive"
        for target, number in sorted(empty.items())
        if target not in conclusive
    ]


def _cached(new: RunSnapshot, policy: Policy) -> list[str]:
    """Results of earlier runs that the policy does not take for results of this one."""
    taken = [(name, cell.cached) for name, cell in new.cells.items() if cell.cached is not None]
    rule = policy.cached
    if rule is None:
        reasons = {name: "the policy has no [cached]" for name, _ in taken}
    else:
        began = parse_time(new.info.started)
        reasons = {name: why for name, source in taken if (why := _refused(source, rule, began))}
    if not reasons:
        return []
    name, why = next(iter(reasons.items()))
    return [
        f"{text.count(len(reasons), 'cell')} did not run and were taken from earlier runs, which "
        f"count for nothing here: {name}: {why}"
    ]


def _refused(source: CacheOrigin, rule: CachedPolicy, began: datetime | None) -> str:
    """Why a result does not count; empty where it does."""
    if not matches_any_glob(rule.hosts, source.host):
        return f"host {source.host or 'unknown'} is not among hosts = {rule.hosts!r}"
    when = parse_time(source.when)
    if when is None or began is None:
        return "its age is not known"
    days = (began - when).total_seconds() / 86400
    if days > rule.max_age_days:
        return f"it was {days:.1f} days old, max_age_days = {rule.max_age_days:g}"
    return ""


def _untimed(found: Diff, policy: Policy) -> list[str]:
    return [
        f"time-up is red for {target}, and the times of {text.count(number, 'cell')} cannot be "
        "compared: another host, or a baseline without times"
        for target, number in sorted(found.untimed.items())
        if ChangeKind.TIME_UP in policy.red_kinds(target)
    ]


def _unused_targets(found: Diff, policy: Policy) -> list[str]:
    targets = {*found.before.targets, *found.after.targets}
    used = [policy.find_target_policy(target) for target in targets]
    return [
        f"the policy's target {entry.match!r} matches no target"
        + (" that an earlier entry does not" if _any(entry.match, targets) else "")
        for entry in policy.target
        if not entry.optional and not any(entry is item for item in used)
    ]


def _any(pattern: str, names: Iterable[str]) -> bool:
    return any(matches_any_glob(pattern, name) for name in names)
