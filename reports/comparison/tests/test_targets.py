"""Comparisons of two targets: cells that one gets wrong alone, and cells that both get wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli import main
from harness.errors import UsageError
from harness.record.cell import Status
from harness.record.folder import load
from reports.comparison.snapshot import take_snapshot
from reports.comparison.targets import Agreement, find_furthest_apart, pair_up
from reports.tests.runs import cell, numerics, write

A, B = "*@xnnpack:fp32", "*@portable:fp32"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    bad = {"status": Status.MISMATCH, "stage": "compare", "error": "1 of 6 exceed"}
    known = {"status": Status.XFAILED, "stage": "lower", "error": "x"}
    ends: dict[str, tuple[dict[str, object], dict[str, object]]] = {
        "both/fine": ({}, {}),
        "both/wrong": (bad, bad),
        "one/wrong": (bad, {}),
        "other/wrong": ({}, known),
        "fine/less": (
            {"numerics": [numerics(sqnr_db=80.0)]},
            {"numerics": [numerics(sqnr_db=120.0)]},
        ),
    }
    cells = []
    for case, sides in ends.items():
        for target, fields in zip(("xnnpack:fp32", "portable:fp32"), sides, strict=True):
            cells.append(cell(case, target, **fields))
    cells.append(cell("first/only", "xnnpack:fp32"))
    write(tmp_path / "run", cells, exit_status=1)
    return tmp_path / "run"


def test_each_case_names_the_targets_that_are_wrong(run: Path) -> None:
    found = pair_up(take_snapshot(load(run)), A, take_snapshot(load(run)), B)
    assert {pair.case: pair.agreement for pair in found.pairs} == {
        "both/fine": Agreement.BOTH_PASS,
        "both/wrong": Agreement.BOTH_WRONG,
        "one/wrong": Agreement.FIRST_WRONG,
        "other/wrong": Agreement.SECOND_WRONG,
        "fine/less": Agreement.BOTH_PASS,
        "first/only": Agreement.FIRST_ONLY,
    }
    [apart] = find_furthest_apart(found.select_kind(Agreement.BOTH_PASS), 6)
    assert (apart.case, apart.sqnr_difference) == ("fine/less", 40.0)


def test_the_command_prints_them_and_gives_json(run: Path) -> None:
    shown = CliRunner().invoke(main, ["diff", str(run), "--cells", A, B])
    assert shown.exit_code == 0, shown.output
    assert "wrong on both: suspect the case" in shown.output
    assert "+40.0 dB" in shown.output
    record = CliRunner().invoke(main, ["diff", str(run), "--cells", A, B, "--format", "json"])
    assert json.loads(record.output)["counts"]["both-wrong"] == 1


@pytest.mark.parametrize(
    ("these", "those", "words"),
    [
        ("*@tosa:fp", B, "matches no cell"),
        ("*", B, "give globs that match one cell of each case"),
        ("first/*@xnnpack:fp32", "both/fine@portable:fp32", "have no case in common"),
    ],
)
def test_sides_that_cannot_be_held_against_each_other(
    run: Path, these: str, those: str, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        pair_up(take_snapshot(load(run)), these, take_snapshot(load(run)), those)


def test_two_runs_or_cells_must_be_named() -> None:
    assert "name two runs" in CliRunner().invoke(main, ["diff"]).output
