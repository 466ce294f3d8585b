"""Cells that did not run, under a gate: never silently green."""

from __future__ import annotations

import datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, strategies as st

from harness.errors import UsageError
from harness.record.cell import Cached
from harness.record.run import Run
from reports.comparison import baseline
from reports.comparison.gate import judge, parse
from reports.comparison.gate.policy import CachedPolicy
from reports.comparison.snapshot import take
from reports.comparison.tests.sides import SUBJECT, side
from reports.verdict import RunVerdict

TODAY = datetime.date(2026, 6, 15)
BEGAN = "2026-06-15T10:00:00+00:00"


def taken(when: str = "2026-06-14T10:00:00+00:00", host: str = "ci-3") -> Run:
    """A run in which the subject was taken from an earlier one."""
    run = side({SUBJECT: "passed"})
    run.info.started = BEGAN
    for cell in run.cells:
        if cell.case == SUBJECT:
            cell.cached = Cached(run="20260614T100000-7", host=host, when=when)
    return run


def colour(policy: str, run: Run) -> tuple[int, str]:
    found = judge(side({SUBJECT: "passed"}), run, parse(policy), today=TODAY)
    return found.exit_code, "\n".join(found.obstacles)


def test_a_cell_that_did_not_run_counts_as_having_no_record() -> None:
    code, why = colour("", taken())
    assert code == 2
    assert "1 cell was not run but taken from earlier runs" in why
    assert "[cached] count = true" in why
    assert SUBJECT in why
    assert "not run" in why.partition("\n")[2]


def test_it_is_red_where_cells_without_a_record_are() -> None:
    assert colour('red = ["not-run"]', taken())[0] == 1


@pytest.mark.parametrize(
    ("policy", "run", "key"),
    [
        ("count = true", taken(), ""),
        ("count = true\nmax_age_days = 1", taken(), ""),
        ("count = true\nmax_age_days = 0.9", taken(), "max_age_days = 0.9"),
        ("count = true\nmax_age_days = 30", taken(when="yesterday"), "max_age_days = 30"),
        ('count = true\nhosts = "build-*|ci-*"', taken(), ""),
        ('count = true\nhosts = "ci-*"', taken(host="laptop"), "[cached] hosts is 'ci-*'"),
    ],
)
def test_the_policy_says_how_old_it_may_be_and_from_where(policy: str, run: Run, key: str) -> None:
    code, why = colour(f"[cached]\n{policy}", run)
    assert code == (2 if key else 0), why
    assert key in why


@pytest.mark.parametrize("wrong", ["counts = true", "max_age_days = -1", "max_age_days = nan"])
def test_a_wrong_key_does_not_loosen_the_gate(wrong: str) -> None:
    with pytest.raises(UsageError):
        parse(f"[cached]\n{wrong}")


@given(st.floats(0, 400), st.floats(0, 400))
def test_what_is_older_than_allowed_never_counts(age: float, allowed: float) -> None:
    began = datetime.datetime(2026, 6, 15, tzinfo=datetime.UTC)
    when = began - datetime.timedelta(days=age)
    policy = CachedPolicy(count=True, max_age_days=allowed)
    why = policy.refuses(Cached(run="a", host="b", when=when.isoformat()), began)
    assert bool(why) == (began - when > datetime.timedelta(days=allowed))


def test_its_time_is_compared_with_none_and_a_baseline_remembers(tmp_path: Path) -> None:
    snapshot = take(taken())
    (cell,) = (each for each in snapshot.cells.values() if each.cached is not None)
    assert cell.case == SUBJECT
    assert cell.seconds is None
    stored = baseline.store(tmp_path / "b.jsonl", taken())
    assert stored.cells[f"{SUBJECT}@xnnpack:fp32"].cached == cell.cached


def test_the_verdict_says_how_many_did_not_run() -> None:
    sentence = RunVerdict.of(taken()).sentence
    assert "1 cell was not run but taken from 1 earlier run, the oldest of 2026-06-14" in sentence
    assert "not run" not in RunVerdict.of(side({SUBJECT: "passed"})).sentence


def test_a_record_without_it_reads_as_before() -> None:
    record = msgspec.to_builtins(taken().cells[0])
    del record["cached"]
    assert msgspec.convert(record, type=type(taken().cells[0])).cached is None
