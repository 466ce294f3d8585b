"""Baselines: a round trip loses nothing a comparison needs, and damage is never a baseline."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli import main
from harness.errors import RunUnreadable
from harness.record.cell import Cell, Delegation, Status
from reports.comparison import baseline
from reports.comparison.diff import diff
from reports.comparison.snapshot import take_snapshot
from reports.tests.runs import cell, large, numerics, write


def test_a_run_and_its_baseline_do_not_differ(tmp_path: Path) -> None:
    run = large(tmp_path / "r", cases=60)
    stored = baseline.store(tmp_path / "b.jsonl", run)
    again = baseline.load(tmp_path / "b.jsonl")
    for found in (diff(stored, run), diff(run, again)):
        assert {change.kind.value for change in found.changes} <= {"still-failing"}
        assert found.environment == []
    assert take_snapshot(run).cells.keys() == again.cells.keys()


def test_numbers_that_are_not_finite_and_odd_names_survive(tmp_path: Path) -> None:
    odd = [numerics(sqnr_db=math.inf, bound_used=math.nan), numerics(output=1, sqnr_db=-math.inf)]
    wrong = cell("a/ü \\ \"x\" 'y' <b>", status=Status.MISMATCH, numerics=odd)
    cells = [wrong, cell("nan", op="inf", stage="nan")]
    stored = baseline.store(tmp_path / "b.jsonl", write(tmp_path / "r", cells))
    first = stored.cells[cells[0].id].outputs
    assert first[0].sqnr_db == math.inf
    assert math.isnan(first[0].bound_used)
    assert first[1].sqnr_db == -math.inf
    assert stored.cells[cells[1].id].op == "inf"


def test_lines_are_sorted_and_omit_defaults(tmp_path: Path) -> None:
    run = write(tmp_path / "r", [cell("b"), cell("a", seconds=1.25)])
    file = tmp_path / "b.jsonl"
    baseline.store(file, run)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line.get("case") for line in lines] == [None, "a", "b"]
    assert lines[0]["cells"] == 2
    assert not any("seconds" in line or "limitation" in line for line in lines)
    # Another run that came out the same changes only the header.
    again = write(tmp_path / "s", [cell("a", seconds=3.0), cell("b")])
    before = file.read_text().splitlines()
    baseline.store(file, again)
    assert file.read_text().splitlines()[1:] == before[1:]


def test_times_are_written_on_request(tmp_path: Path) -> None:
    run = write(tmp_path / "r", [cell("a", seconds=1.25)])
    stored = baseline.store(tmp_path / "b.jsonl", run, times=True)
    assert stored.has_times
    slow = write(tmp_path / "s", [cell("a", seconds=9.0)])
    assert [c.kind.value for c in diff(stored, slow).changes] == ["time-up"]
    untimed = baseline.store(tmp_path / "b.jsonl", run)
    assert diff(untimed, slow).changes == []
    assert "the baseline has no times" in diff(untimed, slow).remarks[0]


def test_the_worst_of_several_records_is_stored(tmp_path: Path) -> None:
    run = write(tmp_path / "r", [cell("a", status=Status.CRASHED), cell("a")])
    stored = baseline.store(tmp_path / "b.jsonl", run)
    assert [item.outcome.value for item in stored.cells.values()] == ["crashed"]


def _damaged(lines: list[str]) -> dict[str, str]:
    return {
        "empty": "",
        "no header": "\n".join(lines[1:]),
        "cut short": "\n".join(lines[:-1]),
        "cut in a line": "\n".join(lines)[:-40],
        "a line twice": "\n".join([*lines, lines[-1]]),
        "a merge conflict": "\n".join([lines[0], "<<<<<<< HEAD", *lines[1:]]),
        "not cells": "\n".join([lines[0], "[]", '"a"']),
        "newer schema": lines[0].replace('"schema":2', '"schema":99') + "\n",
        "newer format": lines[0].replace('"baseline":1', '"baseline":9') + "\n",
        "not text": "\x00\xff",
    }


@pytest.mark.parametrize("kind", list(_damaged(["", ""])))
def test_damage_is_reported_and_never_read_as_a_smaller_baseline(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "b.jsonl"
    baseline.store(file, write(tmp_path / "r", [cell("a"), cell("b")]))
    file.write_text(_damaged(file.read_text().splitlines())[kind])
    with pytest.raises(RunUnreadable, match=r"b\.jsonl"):
        baseline.load(file)


def _update(file: Path, run: Path, *options: str) -> tuple[int, str]:
    done = CliRunner().invoke(
        main, ["baseline", "update", "--baseline", str(file), str(run), *options]
    )
    return done.exit_code, done.output


def test_an_update_prints_the_changes_that_it_accepts(tmp_path: Path) -> None:
    file = tmp_path / "keep" / "b.jsonl"
    write(tmp_path / "a", [cell("x"), cell("y")])
    assert _update(file, tmp_path / "a")[0] == 0
    left = Delegation(undelegated_nodes=2, undelegated_ops={"aten.add.Tensor": 2})
    write(tmp_path / "b", [cell("x", status=Status.FAILED, error="E"), cell("y", delegation=left)])
    code, output = _update(file, tmp_path / "b")
    assert code == 0
    for words in ("newly failing: 1 cell", "delegation lost: 1 cell", "Accepted as failing: 1"):
        assert words in output
    assert baseline.load(file).cells["x@xnnpack:fp32"].outcome.value == "failed"


def test_an_incomplete_or_empty_run_is_not_accepted_by_accident(tmp_path: Path) -> None:
    file = tmp_path / "b.jsonl"
    write(tmp_path / "a", [cell("x")], expected=["x@xnnpack:fp32", "y@xnnpack:fp32"])
    code, output = _update(file, tmp_path / "a")
    assert code == 2
    assert "--allow-incomplete" in output
    assert not file.exists()
    code, output = _update(file, tmp_path / "a", "--allow-incomplete")
    assert code == 0
    assert "1 cell accepted as not run" in output
    assert baseline.load(file).incomplete
    nothing: list[Cell] = []
    write(tmp_path / "e", nothing)
    assert _update(file, tmp_path / "e", "--allow-incomplete")[0] == 2


def test_a_damaged_baseline_can_be_replaced_with_a_notice(tmp_path: Path) -> None:
    file = tmp_path / "b.jsonl"
    file.write_text("<<<<<<< HEAD\n")
    write(tmp_path / "a", [cell("x")])
    code, output = _update(file, tmp_path / "a")
    assert code == 0
    assert "cannot compare with the old baseline" in output
    assert len(baseline.load(file).cells) == 1
