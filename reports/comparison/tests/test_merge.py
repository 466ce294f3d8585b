"""Merge: runs of several hosts become one, and nothing about them is lost or smoothed over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.cli import main
from harness.coverage.claims import TargetClaims, read_claims, write_claims
from harness.errors import RunUnwritable, UsageError
from harness.record.cell import Delegation, Status
from harness.record.folder import RUN_FILE, load
from harness.record.host import Environment
from harness.record.run import BackendState, Run
from reports.comparison.diff import diff
from reports.comparison.merge import merge
from reports.comparison.snapshot import take_snapshot
from reports.outcome import CellOutcome
from reports.summary import RunSummary
from reports.tests.runs import cell, write

LINUX = Environment(host="linux", machine="x86_64", git_commit="a" * 40, packages={"torch": "2"})
MAC = Environment(host="mac", machine="arm64", git_commit="a" * 40, packages={"torch": "2"})
NOTHING: dict[str, Any] = {"runtime": "none", "numerics": [], "delegation": Delegation()}


def away(case: str, target: str = "mlx:fp32") -> Any:
    return cell(case, target, status=Status.UNAVAILABLE, error="not a Mac", **NOTHING)


def two(tmp_path: Path, linux: list[Any], mac: list[Any], **other: Any) -> list[Run]:
    return [
        write(tmp_path / "linux", linux, environment=LINUX),
        write(tmp_path / "mac", mac, environment=MAC, **other),
    ]


def test_shards_become_one_run(tmp_path: Path) -> None:
    runs = two(tmp_path, [cell("a"), cell("b")], [cell("c", "mlx:fp32")])
    made = merge(tmp_path / "out", runs)
    assert made.run.is_complete
    assert [item.id for item in made.run.cells] == [i.id for run in runs for i in run.cells]
    assert made.run.info.expected == [item.id for item in made.run.cells]
    assert made.run.info.targets == ["xnnpack:fp32", "mlx:fp32"]
    assert made.run.info.problems == []
    assert made.run.info.exit_status == 0
    assert (made.overlaps, made.conflicts, made.superseded) == (0, [], 0)
    assert load(tmp_path / "out").info.records == 3


def test_claims_of_all_parts_are_kept(tmp_path: Path) -> None:
    runs = two(tmp_path, [cell("a")], [cell("b", "mlx:fp32")])
    for run, target in zip(runs, ("xnnpack:fp32", "mlx:fp32"), strict=True):
        write_claims(run.path, TargetClaims(target=target, operators={}))
    made = merge(tmp_path / "out", runs)
    assert read_claims(made.run.path).keys() == {"xnnpack:fp32", "mlx:fp32"}


def test_each_cell_keeps_the_environment_of_its_part(tmp_path: Path) -> None:
    made = merge(tmp_path / "out", two(tmp_path, [cell("a")], [cell("b", "mlx:fp32")]))
    assert [part.environment for part in made.run.info.merged_from] == [LINUX, MAC]
    taken = take_snapshot(made.run)
    hosts = {item.case: taken.environment(item).host for item in taken.cells.values()}
    assert hosts == {"a": "linux", "b": "mac"}
    # The merged run has only fields that all parts have in common.
    common = made.run.info.environment
    assert (common.host, common.machine, common.packages) == ("", "", {"torch": "2"})


def test_the_executing_runtime_decides_and_is_reported(tmp_path: Path) -> None:
    lowered = cell("b", "mlx:fp32", status=Status.LOWERED, runtime="none", numerics=[])
    linux = [away("a"), lowered, away("c"), away("d")]
    mac = [cell("a", "mlx:fp32"), cell("b", "mlx:fp32", status=Status.MISMATCH), away("c")]
    declared = cell("d", "mlx:fp32", status=Status.UNSUPPORTED, error="no", **NOTHING)
    made = merge(tmp_path / "out", two(tmp_path, linux, [*mac, declared], exit_status=1))
    outcomes = {row.case: row.outcome for row in RunSummary.from_run(made.run).rows}
    assert outcomes == {
        "a": CellOutcome.PASSED,
        "b": CellOutcome.MISMATCH,
        "c": CellOutcome.UNAVAILABLE,
        "d": CellOutcome.UNSUPPORTED,
    }
    assert made.superseded == 3
    assert len(made.run.info.merged_from[0].superseded) == 3
    assert made.conflicts == []
    assert any("linux: 3 records left out" in line for line in made.remarks)


def test_conflicts_are_problems_and_the_worst_counts(tmp_path: Path) -> None:
    failed = cell("a", status=Status.FAILED, stage="lower", error="E", **NOTHING)
    made = merge(tmp_path / "out", two(tmp_path, [failed, cell("b")], [cell("a"), cell("b")]))
    assert made.overlaps == 2
    assert made.conflicts == ["a@xnnpack:fp32: failed in linux, passed, delegated in mac"]
    assert made.run.info.problems == [f"conflict: {made.conflicts[0]}"]
    assert RunSummary.from_run(made.run).overall.counts[CellOutcome.FAILED] == 1
    assert len(made.run.cells) == 4
    assert made.run.info.exit_status == 1


def test_other_seeds_and_commits_are_problems_and_other_packages_notes(tmp_path: Path) -> None:
    other = Environment(host="mac", git_commit="b" * 40, packages={"torch": "3"})
    runs = [
        write(tmp_path / "l", [cell("a", seed=7)], environment=LINUX),
        write(tmp_path / "m", [cell("b", seed=8)], environment=other, seed=8),
    ]
    made = merge(tmp_path / "out", runs)
    assert made.run.info.problems == [
        "the parts have different seeds: 7, 8",
        f"the parts are of different commits: {'a' * 12}, {'b' * 12}",
    ]
    assert "torch differs between the parts: 2, 3" in made.remarks
    assert {item.seed for item in made.run.cells} == {7, 8}


def test_one_incomplete_part_makes_it_incomplete(tmp_path: Path) -> None:
    whole = write(tmp_path / "a", [cell("a")])
    for name, options in (("killed", {"end": False}), ("short", {"expected": ["b", "c"]})):
        part = write(tmp_path / name, [cell("b")], **options)  # type: ignore[arg-type]
        made = merge(tmp_path / f"out-{name}", [whole, part])
        assert not made.run.is_complete
        assert any(line.startswith(f"{name}: ") for line in made.run.info.problems)
    assert load(tmp_path / "out-killed").info.exit_status is None


@pytest.mark.parametrize("gone", ["expected", "backends"])
def test_a_missing_field_of_a_part_is_not_merged_as_empty(tmp_path: Path, gone: str) -> None:
    runs = two(tmp_path, [cell("a")], [cell("b")])
    file = tmp_path / "mac" / RUN_FILE
    record = json.loads(file.read_text())
    del record[gone]
    file.write_text(json.dumps(record))
    merged = merge(tmp_path / "out", [runs[0], load(tmp_path / "mac")]).run
    assert not merged.is_complete
    assert any(f"mac: run.json contradicts itself: it has no {gone}" in line
               for line in merged.info.problems)  # fmt: skip
    # A run merged from it has the same fields for its part, and a second merge loses none.
    assert [part.complete for part in merged.info.merged_from] == [True, False]
    again = merge(tmp_path / "again", [merged, write(tmp_path / "third", [cell("c")])]).run
    assert not again.is_complete
    assert any(f"it has no {gone}" in line for line in again.info.problems)


def test_a_backend_that_one_part_has_is_not_missing(tmp_path: Path) -> None:
    problem = "backend mlx was expected and is not available: not a Mac"
    runs = [
        write(tmp_path / "l", [cell("a"), away("b")], problems=[problem, "the disk was slow"],
              exit_status=1, backends={"mlx": BackendState(available=False, reason="no Mac")}),
        write(tmp_path / "m", [cell("b", "mlx:fp32")],
              backends={"mlx": BackendState(available=True, runtime="native")}),
    ]  # fmt: skip
    info = merge(tmp_path / "out", runs).run.info
    assert info.backends["mlx"] == BackendState(available=True, runtime="native")
    assert info.problems == ["l: the disk was slow"]
    assert info.merged_from[0].problems == [problem, "the disk was slow"]


def test_an_exit_status_without_an_explaining_record_is_preserved(tmp_path: Path) -> None:
    runs = two(tmp_path, [cell("a")], [cell("b")], exit_status=3)
    assert merge(tmp_path / "out", runs).run.info.exit_status == 3


def test_merged_runs_merge(tmp_path: Path) -> None:
    first = merge(tmp_path / "x" / "m", two(tmp_path / "x", [cell("a")], [cell("b")])).run
    second = merge(tmp_path / "y" / "m", two(tmp_path / "y", [cell("c")], [cell("d")])).run
    made = merge(tmp_path / "out", [first, second]).run
    assert [part.name for part in made.info.merged_from] == ["linux", "mac", "linux-2", "mac-2"]
    assert [item.merged_part for item in made.cells] == ["linux", "mac", "linux-2", "mac-2"]
    assert diff(made, made).changes == []


def test_runs_that_cannot_be_merged_are_refused_without_output(tmp_path: Path) -> None:
    runs = two(tmp_path, [cell("a")], [cell("b")])
    with pytest.raises(UsageError, match="at least two"):
        merge(tmp_path / "out", runs[:1])
    with pytest.raises(UsageError, match="given twice"):
        merge(tmp_path / "out", [runs[0], runs[0]])
    with pytest.raises(RunUnwritable, match="already holds a run"):
        merge(tmp_path / "linux", runs)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(RunUnwritable, match="not empty"):
        merge(tmp_path / "full", runs)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "linux", "mac"]
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["file"]


def test_the_command_reports_its_result(tmp_path: Path) -> None:
    failed = cell("a", status=Status.FAILED, error="E", **NOTHING)
    two(tmp_path, [failed], [cell("a")])
    sides = [str(tmp_path / name) for name in ("out", "linux", "mac")]
    done = CliRunner().invoke(main, ["merge", *sides])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("1 cell of 2 parts, complete; 1 in several parts, 1 conflict\n")
    assert "problem: conflict: a@xnnpack:fp32" in done.output
    done = CliRunner().invoke(main, ["merge", *sides])
    assert done.exit_code == 2
    assert "already holds a run" in done.output


def test_saved_cell_folders_are_merged_too(tmp_path: Path) -> None:
    odd = cell("b", "mlx:fp32", saved_to="../elsewhere")
    runs = two(
        tmp_path,
        [cell("a", saved_to="kept/a-1")],
        [odd, cell("a", "mlx:fp32", saved_to="kept/a-1")],
    )
    for run in runs:
        (run.path / "kept" / "a-1").mkdir(parents=True)
        (run.path / "kept" / "a-1" / "program.pte").write_text(run.path.name)
    (tmp_path / "elsewhere").mkdir()
    made = merge(tmp_path / "out", runs).run
    found = {item.id: item.saved_to for item in made.cells}
    assert found == {
        "a@xnnpack:fp32": "kept/0-a-1",
        "a@mlx:fp32": "kept/1-a-1",
        "b@mlx:fp32": "",
    }
    for kept, host in (("kept/0-a-1", "linux"), ("kept/1-a-1", "mac")):
        assert (made.path / kept / "program.pte").read_text() == host
