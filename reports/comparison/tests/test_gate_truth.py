"""The gate's truth table: the exit code for each transition, alone and mixed."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from harness.errors import UsageError
from harness.record.cell import CacheOrigin, Status
from harness.record.host import Environment
from harness.record.run import BackendState, MergedPart
from reports.comparison.gate import judge, parse
from reports.comparison.tests.sides import SUBJECT, side

TODAY = datetime.date(2026, 6, 15)

GREEN, RED, UNJUDGED = 0, 1, 2

# One cell changes from the first word to the second under the default policy.
ALONE = [
    ("passed", "passed", GREEN),
    ("passed", "undelegated", RED),
    ("passed", "mismatch", RED),
    ("passed", "failed", RED),
    ("passed", "crashed", RED),
    ("passed", "timeout", RED),
    ("passed", "xpassed", RED),
    ("passed", "xfailed", RED),
    ("passed", "unsupported", RED),
    ("passed", "lowered", UNJUDGED),
    ("passed", "unavailable", UNJUDGED),
    ("passed", "not_run", UNJUDGED),
    ("passed", "absent", UNJUDGED),
    ("undelegated", "passed", GREEN),
    ("undelegated", "crashed", RED),
    ("mismatch", "passed", GREEN),
    ("mismatch", "mismatch", GREEN),
    ("mismatch", "crashed", RED),
    ("mismatch", "xfailed", GREEN),
    ("failed", "failed", GREEN),
    ("failed", "failed otherwise", RED),
    ("failed", "crashed", RED),
    ("failed", "timeout", RED),
    ("failed", "passed", GREEN),
    ("failed", "xfailed", GREEN),
    ("failed", "unsupported", RED),
    ("failed", "not_run", UNJUDGED),
    ("failed", "absent", UNJUDGED),
    ("crashed", "crashed", GREEN),
    ("crashed", "failed", RED),
    ("crashed", "passed", GREEN),
    ("timeout", "timeout", GREEN),
    ("timeout", "unavailable", UNJUDGED),
    ("xfailed", "xfailed", GREEN),
    ("xfailed", "passed", GREEN),
    ("xfailed", "xpassed", RED),
    ("xfailed", "failed", RED),
    ("xfailed", "lowered", UNJUDGED),
    ("xpassed", "passed", GREEN),
    ("xpassed", "xpassed", GREEN),
    ("unsupported", "unsupported", GREEN),
    ("unsupported", "passed", GREEN),
    ("unsupported", "failed", RED),
    ("unsupported", "absent", UNJUDGED),
    ("unavailable", "unavailable", GREEN),
    ("unavailable", "passed", GREEN),
    ("unavailable", "mismatch", RED),
    ("unavailable", "lowered", GREEN),
    ("lowered", "lowered", GREEN),
    ("lowered", "unavailable", UNJUDGED),
    ("lowered", "crashed", RED),
    ("not_run", "not_run", UNJUDGED),
    ("not_run", "failed", RED),
    ("absent", "passed", GREEN),
    ("absent", "xfailed", GREEN),
    ("absent", "failed", RED),
    ("absent", "crashed", RED),
    ("absent", "not_run", UNJUDGED),
    ("passed", "worse sqnr", RED),
    ("passed", "slightly worse sqnr", GREEN),
    ("passed", "nan sqnr", RED),
    ("passed", "no numerics", RED),
    ("nan sqnr", "nan sqnr", GREEN),
    ("worse sqnr", "passed", GREEN),
    ("passed", "more bound", GREEN),
    ("quality", "less quality", RED),
    ("quality", "passed", RED),
    ("passed", "more bytes", GREEN),
    ("passed", "more time", GREEN),
    ("passed", "more delegates", GREEN),
    ("passed", "less delegated", RED),
    ("passed", "emulated", RED),
    # Records of before it was measured count as conclusive.
    ("passed", "conclusive", GREEN),
    ("passed", "vacuous", RED),
    ("conclusive", "vacuous", RED),
    ("undelegated", "vacuous", RED),
    ("failed", "vacuous", RED),
    ("xfailed", "vacuous", RED),
    ("unsupported", "vacuous", GREEN),
    ("absent", "vacuous", GREEN),
    ("vacuous", "vacuous", GREEN),
    ("vacuous", "conclusive", GREEN),
    ("vacuous", "failed", RED),
    ("vacuous", "crashed", RED),
    ("vacuous", "not_run", UNJUDGED),
    ("vacuous", "unavailable", UNJUDGED),
    ("vacuous", "absent", UNJUDGED),
]


@pytest.mark.parametrize(("before", "after", "code"), ALONE)
def test_one_transition_under_the_usual_policy(before: str, after: str, code: int) -> None:
    # The baseline of a not_run cell is stored: a run folder without its records is no baseline.
    old = side({SUBJECT: before})
    judged = judge(_accepted(old), side({SUBJECT: after}), parse(""), today=TODAY)
    assert judged.exit_code == code, (judged.red, judged.obstacles)


def _accepted(run: Any) -> Any:
    from reports.comparison.snapshot import take_snapshot

    taken = take_snapshot(run)
    taken.stored = True
    return taken


WAIVED = """
[[waiver]]
cell = "subject/*"
kind = "{kind}"
reason = "upstream fixes it"
owner = "someone"
expires = {expires}
"""


def _waiver(kind: str, expires: str = "2026-06-15") -> str:
    return WAIVED.format(kind=kind, expires=expires)


ONLY_FAILING = 'red = ["newly-failing"]\n'

# One cell, another policy.
POLICIES = [
    ("passed", "more bytes", 'red = ["bytes-up"]', RED),
    ("passed", "more planned memory", 'red = ["planned-memory-up"]', RED),
    ("passed", "more planned memory",
     'red = ["planned-memory-up"]\nthresholds.planned_memory_up = 9999', GREEN),
    ("passed", "more bytes", 'red = ["bytes-up"]\nthresholds.bytes_up_percent = 200', GREEN),
    ("passed", "more bytes", 'red = ["bytes-up"]\nthresholds.bytes_up = 9999', GREEN),
    ("passed", "more time", 'red = ["time-up"]', RED),
    ("passed", "more time", 'red = ["time-up"]\nthresholds.time_factor = 100', GREEN),
    ("passed", "more delegates", 'red = ["delegates-up"]', RED),
    ("passed", "more delegates", 'red = ["delegates-up"]\nthresholds.delegates_up = 3', GREEN),
    ("passed", "less delegated", "thresholds.ops_lost = 2", GREEN),
    ("passed", "more bound", 'red = ["bound-up"]', RED),
    ("passed", "more bound",
     'red = ["bound-up"]\nthresholds.bound_used_up = 0.9', GREEN),
    ("passed", "more bound",
     'red = ["bound-up"]\nthresholds.bound_used_up = 0.9\nthresholds.bound_used_limit = 0.9', RED),
    ("more bound", "more bound", 'red = ["bound-up"]\nthresholds.bound_used_limit = 0.9', GREEN),
    ("absent", "more bound", 'red = ["bound-up"]\nthresholds.bound_used_limit = 0.9', RED),
    ("passed", "slightly worse sqnr", "thresholds.sqnr_drop_db = 1", RED),
    ("passed", "worse sqnr", "thresholds.sqnr_drop_db = 60", GREEN),
    ("passed", "crashed", ONLY_FAILING, GREEN),
    ("passed", "vacuous", ONLY_FAILING, GREEN),
    ("vacuous", "vacuous", 'cells = "subject/*"', UNJUDGED),
    ("vacuous", "vacuous", "min_cells = 4", UNJUDGED),
    ("vacuous", "vacuous", "min_cells = 3", GREEN),
    ("passed", "vacuous", _waiver("signal-lost"), GREEN),
    ("passed", "absent", ONLY_FAILING, UNJUDGED),
    ("passed", "absent", 'red = ["disappeared"]', RED),
    ("passed", "not_run", 'red = ["not-run"]', RED),
    ("passed", "unavailable", 'red = ["newly-unavailable"]', RED),
    ("failed", "failed", 'red = ["still-failing"]', RED),
    ("passed", "failed", 'red = ["bytes-up"]\n[[target]]\nmatch = "xnnpack:*"\n'
     'red = ["newly-failing"]', RED),
    ("passed", "failed", '[[target]]\nmatch = "xnnpack:*"\nred = ["bytes-up"]', GREEN),
    ("passed", "worse sqnr", '[[target]]\nmatch = "xnnpack:*"\nthresholds.sqnr_drop_db = 60',
     GREEN),
    ("passed", "slightly worse sqnr", "thresholds.sqnr_drop_db = 1\n"
     '[[target]]\nmatch = "xnnpack:*"\nthresholds.bytes_up = 1', RED),
    ("passed", "passed", '[[target]]\nmatch = "tosa:*"', UNJUDGED),
    ("passed", "passed", '[[target]]\nmatch = "tosa:*"\noptional = true', GREEN),
    ("passed", "passed", '[[target]]\nmatch = "*"\n[[target]]\nmatch = "xnnpack:*"', UNJUDGED),
    ("passed", "passed", '[[target]]\nmatch = "xnnpack:*"\nmin_cells = 5', UNJUDGED),
    ("passed", "passed", '[[target]]\nmatch = "xnnpack:*"\nmin_cells = 4', GREEN),
    ("passed", "passed", "min_cells = 5", UNJUDGED),
    ("unavailable", "unavailable", "min_cells = 4", UNJUDGED),
    ("passed", "passed", 'required_targets = ["tosa:fp"]', UNJUDGED),
    ("passed", "passed", 'required_targets = ["xnnpack:fp32"]', GREEN),
    ("passed", "crashed", 'cells = "add/*"', GREEN),
    ("passed", "crashed", 'cells = "subject/*"', RED),
    ("passed", "passed", 'cells = "nothing/*"', UNJUDGED),
    ("unsupported", "unsupported", 'cells = "subject/*"', UNJUDGED),
    ("xfailed", "xfailed", 'cells = "subject/*"', UNJUDGED),
    ("passed", "crashed", _waiver("newly-crashed"), GREEN),
    ("passed", "crashed", _waiver("newly-crashed", "2026-06-14"), RED),
    ("passed", "crashed", _waiver("newly-failing"), RED),
    ("passed", "passed", _waiver("newly-crashed"), RED),
    ("passed", "passed", _waiver("newly-crashed", "2020-01-01"), RED),
    ("crashed", "crashed", _waiver("newly-crashed"), RED),
    ("passed", "absent", _waiver("disappeared"), GREEN),
    ("passed", "lowered", _waiver("newly-lowered"), GREEN),
    ("passed", "not_run", _waiver("not-run"), UNJUDGED),
    ("passed", "more bytes", _waiver("bytes-up"), GREEN),
    ("passed", "absent", "subset_min_cells = 3", GREEN),
    ("passed", "absent", "subset_min_cells = 4", UNJUDGED),
    ("passed", "not_run", "subset_min_cells = 3", UNJUDGED),
    ("passed", "crashed", "subset_min_cells = 3", RED),
    ("passed", "absent", "subset_min_cells = 3\n" + _waiver("newly-crashed"), GREEN),
    ("passed", "passed", "subset_min_cells = 3\n" + _waiver("newly-crashed"), RED),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "policy", "code"), POLICIES)
def test_one_transition_under_a_policy(before: str, after: str, policy: str, code: int) -> None:
    judged = judge(side({SUBJECT: before}), side({SUBJECT: after}), parse(policy), today=TODAY)
    assert judged.exit_code == code, (judged.red, judged.waivers, judged.obstacles)


# Several cells at once: a certain red wins, then an obstacle.
MIXED = [
    ({"a/1": ("passed", "failed"), "b/1": ("failed", "passed")}, RED),
    ({"a/1": ("passed", "failed"), "b/1": ("passed", "not_run")}, RED),
    ({"a/1": ("passed", "failed"), "b/1": ("passed", "absent")}, RED),
    ({"a/1": ("passed", "failed"), "b/1": ("passed", "unavailable")}, RED),
    ({"a/1": ("failed", "failed"), "b/1": ("passed", "absent")}, UNJUDGED),
    ({"a/1": ("failed", "passed"), "b/1": ("passed", "absent")}, UNJUDGED),
    ({"a/1": ("failed", "passed"), "b/1": ("passed", "not_run")}, UNJUDGED),
    ({"a/1": ("failed", "failed"), "b/1": ("xfailed", "passed")}, GREEN),
    ({"a/1": ("absent", "passed"), "b/1": ("failed", "passed")}, GREEN),
    ({"a/1": ("absent", "crashed"), "b/1": ("crashed", "absent")}, RED),
    ({"a/1": ("passed", "worse sqnr"), "b/1": ("worse sqnr", "passed")}, RED),
    ({"a/1": ("passed", "more bytes"), "b/1": ("passed", "more time")}, GREEN),
    ({"a/1": ("passed", "lowered"), "b/1": ("lowered", "passed")}, UNJUDGED),
]


@pytest.mark.parametrize(("cells", "code"), MIXED)
def test_mixed_transitions(cells: dict[str, tuple[str, str]], code: int) -> None:
    old = side({name: before for name, (before, _) in cells.items()})
    new = side({name: after for name, (_, after) in cells.items()})
    assert judge(old, new, parse(""), today=TODAY).exit_code == code


AWAY = {"xnnpack": BackendState(available=False, reason="not installed")}

# Problems of the run as a whole, with unchanged cells, and with a crash.
WHOLE: list[tuple[dict[str, Any], dict[str, Any], int, int]] = [
    ({}, {}, GREEN, RED),
    ({}, {"complete": False}, UNJUDGED, RED),
    ({}, {"complete": False, "exit_status": None}, UNJUDGED, RED),
    ({}, {"backends": {}}, UNJUDGED, RED),
    ({}, {"backends": AWAY}, UNJUDGED, RED),
    ({"backends": AWAY}, {"backends": AWAY}, GREEN, RED),
    ({}, {"problems": ["the disk was full"]}, UNJUDGED, RED),
    ({"problems": ["known"]}, {"problems": ["known"], "exit_status": 1}, GREEN, RED),
    ({}, {"exit_status": 1}, UNJUDGED, RED),
    ({}, {"exit_status": 2}, UNJUDGED, RED),
    ({}, {"exit_status": 3}, UNJUDGED, RED),
    ({}, {"expected": ["add/a@xnnpack:fp32"]}, UNJUDGED, RED),
    ({"complete": False}, {}, UNJUDGED, RED),
    ({}, {"environment": Environment(host="other")}, GREEN, RED),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "same", "crash"), WHOLE)
def test_problems_of_the_run(
    old: dict[str, Any], new: dict[str, Any], same: int, crash: int
) -> None:
    baseline = side({SUBJECT: "passed"}, **old)
    for word, code in (("passed", same), ("crashed", crash)):
        judged = judge(baseline, side({SUBJECT: word}, **new), parse(""), today=TODAY)
        assert judged.exit_code == code, judged.obstacles


def test_other_seeds_cannot_be_judged_even_when_something_failed() -> None:
    old, new = side({SUBJECT: "passed"}), side({SUBJECT: "crashed"}, seed=1)
    for cell in new.cells:
        cell.seed = 1
    judged = judge(old, new, parse(""), today=TODAY)
    assert judged.exit_code == UNJUDGED
    assert "another seed" in judged.obstacles[0]


def test_empty_sides_cannot_be_judged() -> None:
    full, empty = side({}), side(dict.fromkeys(("add/a", "add/b", "mul/a"), "absent"))
    for old, new in ((full, empty), (empty, full), (empty, empty)):
        assert judge(old, new, parse(""), today=TODAY).exit_code == UNJUDGED


def test_times_that_cannot_be_compared_are_an_obstacle_when_time_is_red() -> None:
    policy = parse('red = ["time-up"]')
    other = side({SUBJECT: "more time"}, environment=Environment(host="other"))
    judged = judge(side({SUBJECT: "passed"}), other, policy, today=TODAY)
    assert judged.exit_code == UNJUDGED
    assert "time-up is red for xnnpack:fp32" in judged.obstacles[0]


OLD, NEW = "2026-06-01T10:00:00+00:00", "2026-06-10T10:00:00+00:00"


@pytest.mark.parametrize(
    ("policy", "when", "host", "code", "words"),
    [
        ("", NEW, "ci-1", UNJUDGED, "the policy has no [cached]"),
        ("[cached]\nmax_age_days = 7", NEW, "ci-1", GREEN, ""),
        ("[cached]\nmax_age_days = 7", OLD, "ci-1", UNJUDGED, "9.0 days old, max_age_days = 7"),
        ("[cached]\nmax_age_days = 9.5", OLD, "ci-1", GREEN, ""),
        ("[cached]\nmax_age_days = 7", "", "ci-1", UNJUDGED, "its age is unknown"),
        ('[cached]\nmax_age_days = 7\nhosts = "ci-*"', NEW, "ci-1", GREEN, ""),
        ('[cached]\nmax_age_days = 7\nhosts = "ci-*"', NEW, "laptop", UNJUDGED, "host laptop"),
    ],
)
def test_results_of_earlier_runs_count_as_the_policy_states(
    policy: str, when: str, host: str, code: int, words: str
) -> None:
    old, new = side({SUBJECT: "passed"}), side({SUBJECT: "passed"}, started=NEW)
    new.cells[0].cached = CacheOrigin(run="night", host=host, when=when)
    judged = judge(old, new, parse(policy), today=TODAY)
    assert judged.exit_code == code, judged.obstacles
    assert words in " ".join(judged.obstacles)
    new.cells[0].status = Status.CRASHED
    assert judge(old, new, parse(policy), today=TODAY).exit_code != GREEN


def test_an_age_limit_of_zero_is_an_error() -> None:
    with pytest.raises(UsageError, match="max_age_days must be above 0"):
        parse("[cached]\nmax_age_days = 0")
    with pytest.raises(UsageError, match="max_age_days"):
        parse('[cached]\nhosts = "*"')


def test_the_option_declares_a_subset() -> None:
    old, new = side({SUBJECT: "passed"}), side({SUBJECT: "absent"})
    assert judge(old, new, parse(""), today=TODAY).exit_code == UNJUDGED
    assert judge(old, new, parse(""), today=TODAY, subset=3).exit_code == GREEN
    assert judge(old, new, parse(""), today=TODAY, subset=4).exit_code == UNJUDGED


def test_numbers_of_whole_runs_do_not_judge_a_declared_subset() -> None:
    numbers = """
min_cells = 5000
required_targets = ["elsewhere:fp32"]
[[target]]
match = "*"
min_cells = 400
"""
    old, new = side({SUBJECT: "passed"}), side({SUBJECT: "failed"})
    whole = judge(old, old, parse(numbers), today=TODAY)
    assert whole.exit_code == UNJUDGED
    assert len(whole.obstacles) >= 3
    assert judge(old, old, parse(numbers), today=TODAY, subset=1).exit_code == GREEN
    assert judge(old, new, parse(numbers), today=TODAY, subset=1).exit_code == RED
    policy = parse("subset_min_cells = 1\n" + numbers)
    assert judge(old, old, policy, today=TODAY).exit_code == UNJUDGED


def test_an_expired_waiver_excuses_nothing() -> None:
    policy = parse(_waiver("newly-crashed", "2026-06-14"))
    judged = judge(side({SUBJECT: "passed"}), side({SUBJECT: "crashed"}), policy, today=TODAY)
    assert [change.kind.value for change in judged.red] == ["newly-crashed"]
    assert judged.waived == []
    assert "expired on 2026-06-14 (owner someone)" in judged.waivers[0]


def test_a_merged_run_without_one_of_its_machines_cannot_be_judged() -> None:
    hosts = [Environment(machine="x86_64", host="a"), Environment(machine="arm64", host="b")]
    parts = [MergedPart(name=place.host, environment=place) for place in hosts]
    old = side({SUBJECT: "passed"}, merged_from=parts)
    assert judge(old, side({SUBJECT: "passed"}, merged_from=parts), parse("")).exit_code == GREEN
    judged = judge(old, side({SUBJECT: "passed"}, merged_from=parts[:1]), parse(""))
    assert judged.exit_code == UNJUDGED
    assert judged.obstacles == ["no part of the run comes from machine type arm64"]
    assert judge(old, side({SUBJECT: "passed"}), parse(""), subset=4).exit_code == GREEN


_WAIVED = """
[[waiver]]
cell = "subject/*"
kind = {kind}
reason = "known"
owner = "someone"
expires = 2026-07-01
"""


@pytest.mark.parametrize(
    ("kind", "colour"),
    [
        ('"newly-failing"', GREEN),  # Its consequences are excused with it.
        ('["newly-crashed", "newly-failing"]', GREEN),
        ('"all"', GREEN),
        ('"numerics-worse"', RED),
        ('"bytes-up"', RED),
    ],
)
def test_a_waiver_is_of_one_kind_of_several_or_of_all(kind: str, colour: int) -> None:
    policy = parse(_WAIVED.format(kind=kind))
    before, after = side({SUBJECT: "passed"}), side({SUBJECT: "mismatch by far"})
    judged = judge(before, after, policy, today=TODAY)
    assert judged.exit_code == colour
    assert len(judged.red) == (colour == RED)
    # A waiver of a consequence matches something and is not reported as stale.
    assert bool(judged.waivers) == (kind == '"bytes-up"')


def test_a_consequence_is_red_if_the_policy_excuses_its_cause() -> None:
    policy = parse('red = ["numerics-worse"]')
    judged = judge(side({SUBJECT: "passed"}), side({SUBJECT: "mismatch by far"}), policy)
    assert [change.kind.value for change in judged.red] == ["numerics-worse"]
