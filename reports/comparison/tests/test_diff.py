"""Diff: every pair of outcomes has its kind, numbers have their thresholds, nothing is lost."""

from __future__ import annotations

import io
import itertools
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from harness.cli import main
from harness.errors import UsageError
from harness.record.cell import Delegation
from harness.record.host import Environment
from harness.record.run import MergedPart
from reports.comparison.diff import (
    ChangeKind,
    Diff,
    Thresholds,
    diff,
    markdown,
    normalize_error,
    plain,
    terminal,
)
from reports.comparison.diff.select import parse_kinds, select_changes
from reports.comparison.diff.transition import classify_transition
from reports.comparison.snapshot import CellFacts, take_snapshot
from reports.comparison.tests.sides import HERE, SUBJECT, made, side
from reports.outcome import CellOutcome
from reports.tests.runs import cell, large, numerics, write

NAME = f"{SUBJECT}@xnnpack:fp32"


def kinds(before: str, after: str, limits: Thresholds | None = None) -> list[str]:
    found = diff(side({SUBJECT: before}), side({SUBJECT: after}), limits)
    assert all(change.id == NAME for change in found.changes)
    return [change.kind.value for change in found.changes]


def test_every_pair_of_different_outcomes_has_a_kind() -> None:
    ends = [
        None,
        *(CellFacts(case="a/b", target="x:y", outcome=outcome) for outcome in CellOutcome),
    ]
    for before, after in itertools.product(ends, ends):
        kind = classify_transition(before, after)
        same = (before and before.outcome) is (after and after.outcome)
        passes = bool(before and after and before.outcome.is_pass and after.outcome.is_pass)
        if after is not None and after.outcome.is_red:
            assert kind is not None
        elif same or passes:
            assert kind is None
        else:
            assert kind is not None
        # A change for the worse is never listed as an improvement.
        if before and before.outcome.is_pass and not passes and kind is not None:
            assert kind.is_worse


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("passed", "passed", []),
        ("passed", "failed", ["newly-failing"]),
        ("passed", "crashed", ["newly-crashed"]),
        ("passed", "timeout", ["newly-timed-out"]),
        ("passed", "xpassed", ["newly-xpassed"]),
        ("passed", "xfailed", ["limitation-appeared"]),
        ("failed", "xfailed", ["explained"]),
        ("xfailed", "passed", ["limitation-gone"]),
        ("failed", "passed", ["fixed"]),
        ("failed", "failed", ["still-failing"]),
        ("failed", "failed otherwise", ["fails-otherwise"]),
        ("failed", "crashed", ["newly-crashed"]),
        ("passed", "absent", ["disappeared"]),
        ("absent", "passed", ["appeared"]),
        ("passed", "not_run", ["not-run"]),
        ("absent", "not_run", ["not-run"]),
        ("passed", "unavailable", ["newly-unavailable"]),
        ("passed", "unsupported", ["newly-unsupported"]),
        ("passed", "lowered", ["newly-lowered"]),
        ("unavailable", "lowered", ["changed"]),
        ("unavailable", "passed", ["newly-executed"]),
        ("passed", "undelegated", ["delegation-lost"]),
        ("passed", "less delegated", ["delegation-lost"]),
        ("less delegated", "passed", []),
        ("passed", "more delegates", ["delegates-up"]),
        ("passed", "emulated", ["runtime-changed"]),
        ("passed", "worse sqnr", ["numerics-worse"]),
        ("passed", "nan sqnr", ["numerics-worse"]),
        ("passed", "no numerics", ["numerics-worse"]),
        ("passed", "more bound", ["bound-up"]),
        ("quality", "less quality", ["quality-worse"]),
        ("passed", "more bytes", ["bytes-up"]),
        ("passed", "more planned memory", ["planned-memory-up"]),
        ("passed", "more time", ["time-up"]),
    ],
)
def test_one_cell(before: str, after: str, expected: list[str]) -> None:
    assert kinds(before, after) == expected


def test_consequences_of_a_failure_are_listed_with_it_and_not_counted() -> None:
    found = diff(side({SUBJECT: "passed"}), side({SUBJECT: "mismatch by far"}))
    [change] = found.changes
    assert change.kind is ChangeKind.NEWLY_FAILING
    assert {each.kind for each in change.followers} >= {ChangeKind.NUMERICS_WORSE}
    assert "; with it numerics worse: " in change.description
    assert found.counts.total() == 1
    assert json.loads(plain.render(found))["changes"][0]["followers"][0]["kind"] == "numerics-worse"
    # Asked for by its kind it is there.
    [alone] = select_changes(found, kinds=[ChangeKind.NUMERICS_WORSE]).changes
    assert alone.kind is ChangeKind.NUMERICS_WORSE


def test_lost_operators_are_named_with_their_calls() -> None:
    found = diff(side({SUBJECT: "passed"}), side({SUBJECT: "less delegated"}))
    [change] = found.select_kind(ChangeKind.DELEGATION_LOST)
    assert change.ops == (("aten.add.Tensor", 1),)
    assert "no longer delegated: aten.add.Tensor ×1" in change.detail


def test_an_operator_that_became_others_that_are_taken_is_not_lost() -> None:
    before, after = side({SUBJECT: "passed"}), side({SUBJECT: "passed"})
    after.cells[-1].delegation = Delegation(
        delegates=1, delegated_nodes=3, delegated_ops={"aten.mul.Tensor": 3}
    )
    assert diff(before, after).changes == []


def test_sqnr_above_the_ceiling_is_all_the_same() -> None:
    before, after = side({SUBJECT: "passed"}), side({SUBJECT: "passed"})
    before.cells[-1].numerics = [numerics(sqnr_db=float("inf"))]
    assert diff(before, after).changes == []
    [change] = diff(before, after, Thresholds(sqnr_ceiling_db=200.0)).changes
    assert (change.kind, change.old, change.new) == (ChangeKind.NUMERICS_WORSE, float("inf"), 140.0)


def test_times_of_other_hosts_are_compared_only_on_request() -> None:
    before = side({SUBJECT: "passed"})
    after = side({SUBJECT: "more time"}, environment=Environment(host="other"))
    found = diff(before, after)
    assert found.changes == []
    assert found.remarks == ["times of 4 cells were not compared: they ran on other hosts"]
    asked = diff(before, after, times_across_hosts=True)
    assert [change.kind for change in asked.changes] == [ChangeKind.TIME_UP]


def test_times_of_a_merged_run_are_compared_by_part() -> None:
    parts = [
        MergedPart(name="linux", environment=HERE),
        MergedPart(name="mac", environment=Environment()),
    ]
    before, after = side({SUBJECT: "passed"}), side({SUBJECT: "more time"}, merged_from=parts)
    for name, number in (("linux", 1), ("mac", 0)):
        for item in after.cells:
            item.merged_part = name
        assert len(diff(before, after).select_kind(ChangeKind.TIME_UP)) == number


def test_environments_are_reported_first() -> None:
    other = Environment(host="mac", python="3.12.1", packages={"torch": "3.0"}, git_commit="b" * 40)
    found = diff(side({}), side({}, seed=3, environment=other, selection="add"))
    changed = {item.name: (item.before, item.after) for item in found.environment}
    assert changed["seed"] == ("0", "3")
    assert changed["torch"] == ("", "3.0")
    assert changed["commit"] == ("a" * 12, "b" * 12)
    assert {"python", "host", "machine", "selection"} <= changed.keys()
    shown = _shown(found)
    assert shown.index("Different environment") < shown.index("compared")
    assert markdown.render(found).index("| Environment |") > 0


def test_groups_put_most_losses_first() -> None:
    before = side({"mul/x": "passed", "mul/y": "passed", "add/x": "failed"})
    after = side({"mul/x": "failed", "mul/y": "failed", "add/x": "passed"})
    found = diff(before, after)
    assert list(found.by_op()) == ["mul", "add"]
    assert [len(group) for group in found.by_signature().values()] == [2]
    assert found.counts == {ChangeKind.NEWLY_FAILING: 2, ChangeKind.FIXED: 1}
    assert found.compared == 6


def test_signatures_ignore_parts_that_differ_between_runs() -> None:
    one = "RuntimeError: at 0x7ffe12 in /home/a/build/graph.cpp:12: node_14 has 3 of 4.5e-3 float32"
    two = "RuntimeError: at 0x11 in /srv/b/graph.cpp:99: node_2 has 77 of 1e9 float32"
    assert normalize_error(one) == normalize_error(two)
    assert "float32" in normalize_error(one)
    assert normalize_error("conv2d of rank 3") != normalize_error("conv1d of rank 3")


def test_thresholds_must_be_able_to_fail() -> None:
    for value in (float("nan"), float("inf"), -1.0):
        with pytest.raises(UsageError, match="sqnr_drop_db"):
            Thresholds(sqnr_drop_db=value)


def test_kinds_are_named_or_corrected() -> None:
    assert parse_kinds(["fixed"]) == [ChangeKind.FIXED]
    with pytest.raises(UsageError, match="did you mean newly-failing"):
        parse_kinds(["newly-failng"])


def test_a_part_of_a_diff() -> None:
    found = diff(side({SUBJECT: "passed", "x/y": "failed"}), side({SUBJECT: "failed"}))
    assert len(found.changes) == 2
    assert [c.kind for c in select_changes(found, kinds=[ChangeKind.DISAPPEARED]).changes] == [
        ChangeKind.DISAPPEARED
    ]
    assert select_changes(found, target="tosa:*").changes == []


def test_renderers_show_every_kind_and_keep_texts_of_records_inside(tmp_path: Path) -> None:
    before = large(tmp_path / "a", cases=60, broken=False)
    after = large(tmp_path / "b", cases=60)
    found = diff(before, after)
    assert len(found.counts) > 4
    shown, page = _shown(found), markdown.render(found)
    for kind in found.counts:
        assert kind.label in shown
        assert kind.label in page
    assert len(page) <= 60_000
    record = json.loads(plain.render(found))
    assert len(record["changes"]) == len(found.changes)
    assert record["changes"][0]["repro"].startswith("conform repro")


def test_the_repro_line_of_another_repository_names_its_suites(tmp_path: Path) -> None:
    run = write(tmp_path, [cell("a", suite="theirs.cases"), cell("b", suite="suites.ops.unary")])
    theirs, ours = (each.repro for each in take_snapshot(run).cells.values())
    assert theirs.endswith("--seed 0 --suites theirs")
    assert ours.endswith("--seed 0")


def test_the_command(tmp_path: Path) -> None:
    write(tmp_path / "a", [cell("add/a"), cell("add/b")])
    failed = made("failed", "add/b")
    assert failed is not None
    write(tmp_path / "b", [cell("add/a"), failed])
    sides = [str(tmp_path / "a"), str(tmp_path / "b")]
    run = CliRunner()
    done = run.invoke(main, ["diff", *sides])
    assert done.exit_code == 0
    assert "1 newly failing" in done.output
    done = run.invoke(main, ["diff", *sides, "--format", "json", "--only", "newly-failing"])
    assert [change["cell"] for change in json.loads(done.output)["changes"]] == [failed.id]
    assert "`add/b@xnnpack:fp32`" in run.invoke(main, ["diff", *sides, "--format=markdown"]).output
    for bad in (["diff", sides[0], str(tmp_path / "none")],
                ["diff", *sides, "--only", "nonsense"], ["diff", *sides, "--sqnr-drop", "nan"],
                ["diff", sides[0], __file__]):  # fmt: skip
        done = run.invoke(main, bad)
        assert done.exit_code == 2, done.output
        assert done.output.startswith("conform: ")
        assert len(done.output.splitlines()) == 1


def _shown(found: Diff) -> str:
    out = io.StringIO()
    terminal.render(found, Console(width=200, file=out))
    return out.getvalue()
