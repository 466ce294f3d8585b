"""Trends, steps, flaky cells and first bad runs of a history, and their output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from harness.cli import main
from harness.errors import UnknownCell, UsageError
from harness.record.cell import Delegation, Status
from harness.record.run import BackendState
from reports import history
from reports.history.tests.days import night, words
from reports.history.view import find, make_view
from reports.tests.runs import cell, numerics

PASSED, FAILED, CRASHED = Status.PASSED, Status.FAILED, Status.CRASHED


# --- trends -----------------------------------------------------------------------------------


def test_trends_count_every_outcome_separately(tmp_path: Path) -> None:
    statuses = [status for status in Status for _ in range(2)]
    night(tmp_path, 0, [cell(f"c{at}", status=status) for at, status in enumerate(statuses)],
          expected=[*(f"c{at}@xnnpack:fp32" for at in range(len(statuses))), "z@xnnpack:fp32"],
          backends={"xnnpack": BackendState(available=True)})  # fmt: skip
    (row,) = history.trends(history.load(tmp_path)).to_dict("records")
    for name in ("unsupported", "unavailable", "lowered_only", "xfailed", "xpassed", "crashed"):
        assert row[name] == 2
    assert (row["not_run"], row["cells"], row["passed"], row["red"]) == (1, 21, 2, 10)
    assert row["rated"] == 19
    assert row["pass_rate"] == pytest.approx(2 / 19)


def test_variations_of_one_recipe_by_passes_are_shown_as_one(tmp_path: Path) -> None:
    targets = ["tosa:fp", "tosa:fp+a", "tosa:fp+a+b", "tosa:fp-c"]
    for day in range(2):
        night(tmp_path, day, [cell("x", each, status=FAILED if day and "+" in each else PASSED)
                              for each in targets])  # fmt: skip
    past = history.load(tmp_path)
    shown = make_view(past, find(past, ("nights",)), limit=5)
    plain, varied = shown.sections[0].rows
    assert (plain[0], plain[3], plain[4]) == ("tosa:fp", "1 of 1 (100 %)", "0")
    assert (varied[0], varied[3], varied[4]) == ("tosa:fp ± passes", "1 of 3 (33.3 %)", "2")


def test_the_rate_is_nothing_where_nothing_is_conclusive(tmp_path: Path) -> None:
    night(tmp_path, 0, [cell("a", status=Status.UNAVAILABLE), cell("b", status=Status.LOWERED)])
    (row,) = history.trends(history.load(tmp_path)).to_dict("records")
    assert pd.isna(row["pass_rate"])


def test_a_day_counts_a_cell_once_and_each_line_separately(tmp_path: Path) -> None:
    night(tmp_path, 0.0, [cell("a", status=FAILED), cell("b")])
    night(tmp_path, 0.1, [cell("a")], expected=["a@xnnpack:fp32", "b@xnnpack:fp32"])
    night(tmp_path, 0.2, [cell("a", status=CRASHED)], platform="Darwin 24", machine="arm64")
    past = history.load(tmp_path)
    linux, mac = history.trends(past).to_dict("records")
    assert (linux["line"], linux["cells"], linux["passed"], linux["runs"]) == (
        "Linux x86_64", 2, 2, 2,
    )  # fmt: skip
    assert linux["incomplete"] == 1
    assert linux["seconds"] == pytest.approx(0.9)
    assert (mac["line"], mac["crashed"]) == ("Darwin arm64", 1)
    assert len(history.trends(past, by="run")) == 3
    with pytest.raises(UsageError, match="there are day and run"):
        history.trends(past, by="week")


def test_added_and_removed_cells_are_counted(tmp_path: Path) -> None:
    night(tmp_path, 0, [cell("a"), cell("b"), cell("a", "tosa:fp")])
    night(tmp_path, 1, [cell("a"), cell("c"), cell("d")])
    night(tmp_path, 2, [cell("a"), cell("a", "tosa:fp")])
    table = history.trends(history.load(tmp_path)).set_index(["day", "target"])
    assert table["appeared"].tolist() == [1, 2, 2, 0, 0]
    assert table["disappeared"].tolist() == [0, 0, 1, 0, 2]


# --- steps ------------------------------------------------------------------------------------


def series(root: Path, count: int, at: int, change: dict[str, Any], **fields: Any) -> None:
    for number in range(count):
        given = change if number >= at else {}
        night(root, number, [cell("add/a", **given), cell("add/b")], **fields)


@pytest.mark.parametrize(
    ("change", "metric", "before", "after", "worse"),
    [
        ({"program_bytes": 4096}, "program_bytes", 2048, 4096, True),
        ({"seconds": 0.9}, "seconds", 0.45, 0.9, True),
        ({"seconds": 0.1}, "seconds", 0.45, 0.1, False),
        ({"numerics": [numerics(sqnr_db=100.0)]}, "sqnr_db", 140, 100, True),
        ({"numerics": [numerics(sqnr_db=float("inf"))]}, "sqnr_db", 140, float("inf"), False),
        ({"numerics": [numerics(bound_used=0.9)]}, "bound_used", 0.5, 0.9, True),
        (
            {"delegation": Delegation(delegates=3, delegated_nodes=2)},
            "delegates", 1, 3, True,
        ),
        (
            {"delegation": Delegation(delegates=1, delegated_nodes=1, undelegated_nodes=1)},
            "delegated_nodes", 2, 1, True,
        ),
    ],
)  # fmt: skip
def test_a_step_of_each_metric_with_its_commits(
    tmp_path: Path, change: dict[str, Any], metric: str, before: float, after: float, worse: bool
) -> None:
    series(tmp_path, 9, 5, change)
    (row,) = history.steps(history.load(tmp_path)).to_dict("records")
    assert (row["metric"], row["name"], row["worse"]) == (metric, "add/a@xnnpack:fp32", worse)
    assert (row["before"], row["after"]) == (pytest.approx(before), pytest.approx(after))
    assert (row["commit_before"], row["commit_after"]) == ("c4", "c5")
    assert (row["between"], row["environment"], row["nights"], row["lasts"]) == (0, "", 4, True)


def test_a_step_names_missing_days_and_other_changes(tmp_path: Path) -> None:
    for number in range(12):
        late = number >= 6
        one = cell("add/a", program_bytes=4096 if late else 2048)
        gone = number in (5, 6)
        night(tmp_path, number, [] if gone else [one], expected=[one.id],
              packages={"torch": "2.10.0" if late else "2.9.0"})  # fmt: skip
    (row,) = history.steps(history.load(tmp_path)).to_dict("records")
    assert (row["commit_before"], row["commit_after"], row["between"]) == ("c4", "c7", 2)
    assert row["environment"] == "torch 2.9.0 → 2.10.0"


def test_times_of_other_processors_are_no_step(tmp_path: Path) -> None:
    for number in range(12):
        slow = number >= 6
        one = cell("add/a", seconds=2.0 if slow else 1.0)
        night(tmp_path, number, [one], processor="Slow CPU" if slow else "Some CPU")
    assert history.steps(history.load(tmp_path)).empty


def test_a_cell_that_fails_early_is_not_quicker(tmp_path: Path) -> None:
    for number in range(12):
        bad = number >= 6
        one = cell("add/a", seconds=0.1 if bad else 1.0, status=FAILED if bad else PASSED)
        night(tmp_path, number, [one])
    assert history.steps(history.load(tmp_path)).empty


def test_steps_together_and_in_the_middle_of_an_op(tmp_path: Path) -> None:
    for number in range(10):
        size = 1.1 if number >= 4 else 1.0
        night(tmp_path, number, [cell(f"add/{at}", program_bytes=round(10_000 * (at + 1) * size))
                                 for at in range(5)])  # fmt: skip
    past = history.load(tmp_path)
    (group,) = history.group_steps(history.steps(past)).to_dict("records")
    assert (group["steps"], group["worse"], group["commit_after"]) == (5, 5, "c4")
    assert group["ratio"] == pytest.approx(1.1)
    assert len(group["examples"]) == 3
    for by, name in (("op", "add"), ("target", "xnnpack:fp32")):
        (row,) = history.steps(past, by=by).to_dict("records")
        assert (row["name"], row["cells"]) == (name, 5)
        assert row["ratio"] == pytest.approx(1.1)
    with pytest.raises(UsageError, match="no metric 'speed'"):
        history.steps(past, metrics=["speed"])
    with pytest.raises(UsageError, match="there are cell, op and target"):
        history.steps(past, by="suite")


def test_one_slow_run_is_no_step(tmp_path: Path) -> None:
    for number in range(12):
        night(tmp_path, number, [cell("add/a", seconds=30.0 if number == 6 else 1.0)])
    assert history.steps(history.load(tmp_path)).empty


# --- flaky ------------------------------------------------------------------------------------

AGAIN = {"git_commit": "same"}


@pytest.mark.parametrize(
    ("first", "second", "is_flaky"),
    [
        ({}, {}, True),
        ({}, {"git_commit": "other"}, False),
        ({}, {"seed": 1}, False),
        ({}, {"packages": {"torch": "2.10.0"}}, False),
        ({}, {"packages": {}}, False),
        ({}, {"python": "3.11.8"}, False),
        ({}, {"processor": "Other CPU"}, False),
        ({}, {"platform": "Darwin 24"}, False),
        ({}, {"host": "another"}, True),
        ({"git_dirty": True}, {"git_dirty": True}, False),
        ({"git_dirty": None}, {"git_dirty": None}, False),
        ({"git_commit": None}, {"git_commit": None}, False),
    ],
)
def test_flaky_is_another_outcome_of_the_same(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any], is_flaky: bool
) -> None:
    night(tmp_path, 0, [cell("add/a"), cell("add/b")], **(AGAIN | first))
    night(tmp_path, 1, [cell("add/a", status=CRASHED), cell("add/b")], **(AGAIN | second))
    table = history.flaky(history.load(tmp_path))
    assert table["id"].tolist() == (["add/a@xnnpack:fp32"] if is_flaky else [])


@pytest.mark.parametrize("status", [Status.UNAVAILABLE, None])
def test_an_inconclusive_record_is_not_another_outcome(
    tmp_path: Path, status: Status | None
) -> None:
    words(tmp_path, [PASSED, status, PASSED], **AGAIN)
    assert history.flaky(history.load(tmp_path)).empty


def test_flaky_counts_and_examples(tmp_path: Path) -> None:
    words(tmp_path, [PASSED, FAILED, PASSED, PASSED, None], **AGAIN)
    past = history.load(tmp_path)
    (row,) = history.flaky(past).to_dict("records")
    assert row["outcomes"] == {"passed": 3, "failed": 1}
    assert (row["runs"], row["others"], row["places"]) == (4, 1, 1)
    assert (row["first"], row["last"]) == ("night-000.0", "night-003.0")
    assert row["example"] == ["night-001.0", "night-003.0"]
    assert history.count_incomparable(past) == 0


def test_disagreeing_records_of_one_run_are_flaky_for_any_code(tmp_path: Path) -> None:
    both = [cell("add/a", status=CRASHED), cell("add/a")]
    night(tmp_path, 0, both, git_dirty=True)
    past = history.load(tmp_path)
    (row,) = history.flaky(past).to_dict("records")
    assert row["outcomes"] == {"passed": 1, "crashed": 1}
    assert row["example"] == ["night-000.0"]
    assert history.count_incomparable(past) == 1


# --- first bad --------------------------------------------------------------------------------

X, LOW = Status.XFAILED, Status.LOWERED


@pytest.mark.parametrize(
    ("said", "good", "bad", "between", "red"),
    [
        ([PASSED, PASSED, FAILED], 1, 2, {}, 1),
        ([PASSED, FAILED, CRASHED, FAILED], 0, 1, {}, 3),
        ([PASSED, FAILED, PASSED, FAILED, FAILED], 2, 3, {}, 2),
        ([PASSED, None, None, FAILED], 0, 3, {"not_run": 2}, 1),
        ([PASSED, X, LOW, Status.UNAVAILABLE, FAILED], 0, 4,
         {"xfailed": 1, "lowered": 1, "unavailable": 1}, 1),
        ([PASSED, FAILED, None, Status.UNAVAILABLE], 0, 1, {}, 1),
        ([FAILED, FAILED], None, 0, {}, 2),
        ([X, Status.XPASSED], None, 1, {}, 1),
    ],
)  # fmt: skip
def test_first_bad_run_and_the_gap_before_it(
    tmp_path: Path, said: list[Status | None], good: int | None, bad: int,
    between: dict[str, int], red: int,
) -> None:  # fmt: skip
    words(tmp_path, said)
    (row,) = history.first_bad(history.load(tmp_path)).to_dict("records")
    assert row["commit_good"] == ("" if good is None else f"c{good}")
    assert row["commit_bad"] == f"c{bad}"
    assert row["never_passed"] == (good is None)
    assert row["between"] == between
    assert row["red_runs"] == red
    newest = max(at for at, status in enumerate(said) if status is not None and status.is_red)
    assert row["error"] == f"error of {newest}"


@pytest.mark.parametrize("said", [[FAILED, PASSED], [FAILED, X], [PASSED], [None, FAILED, LOW]])
def test_a_cell_that_is_green_now_has_no_first_bad_run(
    tmp_path: Path, said: list[Status | None]
) -> None:
    words(tmp_path, said)
    assert history.first_bad(history.load(tmp_path)).empty


def test_first_bad_of_one_line_is_not_hidden_by_another(tmp_path: Path) -> None:
    mac = {"platform": "Darwin 24", "machine": "arm64"}
    for number in range(4):
        status = FAILED if number >= 2 else PASSED
        night(tmp_path, number, [cell("add/a", status=status)], **mac)
        night(tmp_path, number + 0.5, [cell("add/a")])
    (row,) = history.first_bad(history.load(tmp_path)).to_dict("records")
    assert (row["line"], row["commit_good"], row["commit_bad"]) == ("Darwin arm64", "c1", "c2")


# --- selecting and printing -------------------------------------------------------------------


def test_select_narrows_and_reports_an_empty_result(tmp_path: Path) -> None:
    night(tmp_path, 0, [cell("add/a"), cell("add/a", "tosa:fp"), cell("mul/a")])
    past = history.load(tmp_path)
    past.metric("seconds")
    narrow = past.select(target="xnn*", op="mul")
    assert narrow.cells["id"].tolist() == ["mul/a@xnnpack:fp32"]
    assert narrow.metric("seconds").shape == narrow.metric("delegates").shape == (1, 1)
    assert narrow.words(0, "runtime") == {0: "native"}
    with pytest.raises(UnknownCell, match="no cell with op 'sub'"):
        past.select(op="sub")


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["history", *arguments], env={"COLUMNS": "240"})
    assert result.exit_code == 0, result.output
    return result.output


def test_the_command_prints_everything_in_each_format(tmp_path: Path) -> None:
    for number in range(8):
        late = number >= 4
        cells = [
            cell("add/a", program_bytes=4096 if late else 2048),
            cell("add/b", status=FAILED if late else PASSED, error="[red]<b>no</b>"),
            cell("add/c", status=CRASHED if number == 7 else PASSED),
        ]
        night(tmp_path, number, cells, git_commit=f"c{min(number, 6)}")
    root = str(tmp_path)
    for style in ("terminal", "markdown"):
        text = shown(root, "--format", style)
        assert "8 runs on 8 days" in text
        assert "c3..c4" in text
        assert "good in night-003.0" in text
        assert "passed, delegated ×1, crashed ×1" in text
    assert "<b>" not in shown(root, "--format", "markdown")
    assert "Flaky" not in shown(root, "--steps")
    assert "Runs of the cell" in shown(root, "--cell", "add/a@xnnpack:fp32")
    assert '"first_bad"' in shown(root, "--format", "json")
    assert '"first_bad"' not in shown(root, "--format", "json", "--flaky")


def test_the_command_refuses_in_one_line(tmp_path: Path) -> None:
    night(tmp_path, 0, [cell("a")])
    for arguments, said in (
        ([str(tmp_path / "none")], "not a folder"),
        ([str(tmp_path), "--cell", "b@tosa:fp"], "no cell with cell 'b@tosa:fp'"),
    ):
        result = CliRunner().invoke(main, ["history", *arguments])
        assert result.exit_code == 2
        assert said in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1


def test_the_runs_of_one_day_are_listed_separately(tmp_path: Path) -> None:
    night(tmp_path, 0.1, [cell("add/a")], name="first")
    night(tmp_path, 0.2, [cell("add/a", status=Status.FAILED, stage="run")], name="second")
    result = CliRunner().invoke(main, ["history", str(tmp_path)], env={"COLUMNS": "240"})
    assert result.exit_code == 0
    assert "Runs of 2026-01-01" in result.output
    assert "red, by run" in result.output
    told = [line for line in result.output.splitlines() if "Linux" in line]
    assert ["04:24 first" in line for line in told].count(True) == 1
    assert ["06:48 second" in line for line in told].count(True) == 2  # and the newest of a target
    night(tmp_path, 1.1, [cell("add/a")], name="tomorrow")
    later = CliRunner().invoke(main, ["history", str(tmp_path)], env={"COLUMNS": "240"})
    assert "Days" in later.output
