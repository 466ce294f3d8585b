"""Obstacles: reasons why a gate cannot call a run green although no change is red."""

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

#: Changes of a baseline cell that has no result in this run.
LOSSES = (
    ChangeKind.DISAPPEARED,
    ChangeKind.NOT_RUN,
    ChangeKind.NEWLY_UNAVAILABLE,
    ChangeKind.NEWLY_LOWERED,
)

# pytest's exit code for failed tests; a larger one says that the session itself failed.
_FAILED = 1


def find_obstacles(
    found: Diff, rest: list[Change], policy: Policy, subset: int | None
) -> tuple[list[str], list[str]]:
    """Find obstacles: first those that forbid a comparison, then all others.

    Args:
        found: the diff of the judged cells.
        rest: changes that are neither red nor waived.
        policy: requirements on a run.
        subset: minimum of conclusive cells of a declared subset; None for a full run.
    """
    old, new = found.before, found.after
    fatal = [*_incomparable(old, new)]
    others = [
        *(f"the run is incomplete: {reason}" for reason in new.incomplete),
        *_check_ending(old, new),
        *_backends(old, new, subset),
        *_machines(old, new, subset),
        *_losses(rest, subset),
        *_numbers(new, policy, subset),
        *_check_cached(new, policy),
        *_list_untimed(found, policy),
        *_list_unused_targets(found, policy),
    ]
    if old.incomplete and not old.stored:
        others += [f"the baseline is incomplete: {reason}" for reason in old.incomplete]
    return [text.line(item, _LENGTH) for item in fatal], [
        text.line(item, _LENGTH) for item in others
    ]


def list_warnings(found: Diff, subset: int | None) -> list[str]:
    """List facts that do not change the result but that a reader must know."""
    lines = [
        f"the baseline was accepted incomplete: {reason}"
        for reason in found.before.incomplete
        if found.before.stored
    ]
    if subset is not None:
        gone = len(found.select_kind(ChangeKind.DISAPPEARED))
        lines.append(
            f"declared a subset of at least {text.count(subset, 'cell')}: "
            f"{text.count(gone, 'cell')} of the baseline were not judged"
        )
    return [text.line(item, _LENGTH) for item in lines]


def _incomparable(old: RunSnapshot, new: RunSnapshot) -> list[str]:
    lines = []
    if not old.cells:
        lines.append("the baseline has no cell that the policy selects")
    if not new.cells:
        lines.append("the run has no cell that the policy selects")
    both = [(cell, new.cells[name]) for name, cell in old.cells.items() if name in new.cells]
    unlike = [pair for pair in both if pair[0].seed != pair[1].seed]
    if unlike:
        a, b = unlike[0]
        lines.append(
            f"{text.count(len(unlike), 'cell')} ran with another seed: {a.seed} in the baseline, "
            f"{b.seed} now; inputs and weights differ"
        )
    return lines


def _check_ending(old: RunSnapshot, new: RunSnapshot) -> list[str]:
    info = new.info
    fresh = [line for line in info.problems if line not in old.info.problems]
    lines = [f"the run had a problem: {line}" for line in fresh[:10]]
    if len(fresh) > 10:
        lines.append(f"and {len(fresh) - 10:,} more problems")
    status = info.exit_status
    if status is not None and status not in (0, _FAILED):
        lines.append(f"the run ended with exit status {status}: the session itself failed")
    red = any(cell.outcome.is_red for cell in new.cells.values())
    if status == _FAILED and not red and not info.problems and _is_whole(new):
        lines.append(
            "the run ended with exit status 1, but no cell is red and no problem is recorded"
        )
    expected = set(info.expected)
    stray = [name for name in new.cells if name not in expected]
    if stray:
        lines.append(
            f"{text.count(len(stray), 'cell')} have a record but were not selected: {stray[0]}"
        )
    return lines


def _is_whole(run: RunSnapshot) -> bool:
    # If the policy selects some cells only, another cell may have made the run fail.
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
    # Parts may overlap, so all cells may have a record although a host is missing.
    if subset is not None or not old.info.merged_from:
        return []
    there = {place.machine for place in new.environments}
    gone = sorted({place.machine for place in old.environments} - there)
    return [
        f"no part of the run comes from machine type {machine or 'unknown'}" for machine in gone
    ]


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
    if subset is None:
        lines += _without_signal(new)
    for wanted, who in ((policy.min_cells, "the policy"), (subset or 0, "the declared subset")):
        if total < wanted:
            lines.append(f"{text.count(total, 'conclusive cell')}, but {who} requires {wanted:,}")
    for target in policy.required_targets:
        if not counts[target]:
            lines.append(f"required target {target} has no conclusive cell")
    entries = {target: policy.find_target_policy(target) for target in {*new.targets}}
    for target, entry in sorted(entries.items()):
        if entry is not None and counts[target] < entry.min_cells:
            lines.append(
                f"target {target}: {text.count(counts[target], 'conclusive cell')}, "
                f"but the policy requires {entry.min_cells:,}"
            )
    return lines


def _without_signal(new: RunSnapshot) -> list[str]:
    """Report targets whose passes are all vacuous."""
    conclusive = {cell.target for cell in new.cells.values() if cell.outcome.is_pass}
    empty = Counter(
        cell.target for cell in new.cells.values() if cell.outcome is CellOutcome.VACUOUS
    )
    return [
        f"target {target}: none of its {text.count(number, 'pass', 'passes')} is conclusive"
        for target, number in sorted(empty.items())
        if target not in conclusive
    ]


def _check_cached(new: RunSnapshot, policy: Policy) -> list[str]:
    """Report cached results that the policy does not accept."""
    taken = [(name, cell.cached) for name, cell in new.cells.items() if cell.cached is not None]
    rule = policy.cached
    if rule is None:
        reasons = {name: "the policy has no [cached] section" for name, _ in taken}
    else:
        began = parse_time(new.info.started)
        reasons = {
            name: why for name, source in taken if (why := _refuse_cached(source, rule, began))
        }
    if not reasons:
        return []
    name, why = next(iter(reasons.items()))
    return [
        f"{text.count(len(reasons), 'cell')} have cached results that the policy does not "
        f"accept: {name}: {why}"
    ]


def _refuse_cached(source: CacheOrigin, rule: CachedPolicy, began: datetime | None) -> str:
    """Explain why a cached result does not count; empty if it counts."""
    if not matches_any_glob(rule.hosts, source.host):
        return f"host {source.host or 'unknown'} does not match hosts = {rule.hosts!r}"
    when = parse_time(source.when)
    if when is None or began is None:
        return "its age is unknown"
    days = (began - when).total_seconds() / 86400
    if days > rule.max_age_days:
        return f"it was {days:.1f} days old, max_age_days = {rule.max_age_days:g}"
    return ""


def _list_untimed(found: Diff, policy: Policy) -> list[str]:
    return [
        f"time-up is red for {target}, but the times of {text.count(number, 'cell')} cannot be "
        "compared: the host differs, or the baseline has no times"
        for target, number in sorted(found.untimed.items())
        if ChangeKind.TIME_UP in policy.find_red_kinds(target)
    ]


def _list_unused_targets(found: Diff, policy: Policy) -> list[str]:
    targets = {*found.before.targets, *found.after.targets}
    used = [policy.find_target_policy(target) for target in targets]
    return [
        f"the policy's target {entry.match!r} matches no target"
        + (" that no earlier entry matches" if _matches_any(entry.match, targets) else "")
        for entry in policy.target
        if not entry.optional and not any(entry is item for item in used)
    ]


def _matches_any(pattern: str, names: Iterable[str]) -> bool:
    return any(matches_any_glob(pattern, name) for name in names)
