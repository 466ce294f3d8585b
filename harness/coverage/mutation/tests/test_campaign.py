"""Outcomes follow from cells with the mutant and without."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec import structs

from harness.coverage.mutation.campaign import _Baseline, _Ended, _Judge, _Observation
from harness.coverage.mutation.messages import CellJob, MutationRequest
from harness.coverage.mutation.mutant import Mutant, MutantOutcome, MutantResult, read_campaign
from harness.coverage.mutation.operators import list_mutants
from harness.coverage.vendor_code import list_vendor_files
from harness.pytest_plugin.tests.sessions import ROOT, environment
from harness.record.cell import Cell, Status

MUTANT = list_mutants(b"def f(x):\n    return x < 1\n", "a.py", "xnnpack")[0]

Run = Callable[[Mutant | None, Sequence[Cell]], _Ended]


def make_cell(name: str, status: Status = Status.PASSED, **fields: object) -> Cell:
    return Cell(case=name, target="xnnpack:fp32", status=status, **fields)  # type: ignore[arg-type]


CELLS = [make_cell(name) for name in "abc"]


def judge(run: Run, refused: str = "") -> MutantResult:
    """Judge a mutant whose cells run as a function says."""
    one = _Judge(
        _Baseline(),
        threading.Event(),
        lambda before, after: refused if after.case == "b" else "",
        Path("suites"),
        Path(),
    )
    one._run = run  # type: ignore[method-assign]
    return one.judge(MUTANT, CELLS, 7)


def make_run(
    changed: dict[str, Status] | None = None,
    digests: dict[str, str] | None = None,
    *,
    red: str = "",
    dies: str = "",
    dies_anyway: str = "",
) -> Run:
    """Run cells: with the mutant some have another status or digest, or end the process."""

    def run(mutant: Mutant | None, cells: Sequence[Cell]) -> _Ended:
        observed: list[_Observation] = []
        for cell in cells:
            if cell.case == dies_anyway or (mutant and cell.case == dies):
                return _Ended(observed, "was ended by SIGSEGV")
            status = Status.FAILED if cell.case == red else Status.PASSED
            digest = "1"
            if mutant:
                status = (changed or {}).get(cell.case, status)
                digest = (digests or {}).get(cell.case, digest)
            error = "wrong\nlong" if status.is_red else None
            record = structs.replace(cell, status=status, stage="lower", error=error)
            observed.append(_Observation(record, digest))
            if mutant and status.is_red:
                break
        return _Ended(observed)

    return run


def test_a_red_cell_ends_it() -> None:
    result = judge(make_run({"b": Status.FAILED}))
    assert (result.outcome, result.cell) == (MutantOutcome.RED, "b@xnnpack:fp32")
    assert (result.detail, result.tried, result.executing) == ("failed: lower: wrong", 2, 7)


def test_a_cell_that_ends_the_process_is_red() -> None:
    result = judge(make_run(dies="b"))
    assert (result.outcome, result.cell) == (MutantOutcome.RED, "b@xnnpack:fp32")
    assert result.detail == "the process was ended by SIGSEGV"


@pytest.mark.parametrize("run", [make_run(red="a"), make_run(dies_anyway="a")])
def test_a_cell_that_is_red_anyway_proves_nothing(run: Run) -> None:
    result = judge(run)
    assert (result.outcome, result.tried) == (MutantOutcome.UNCHANGED, 2)


def test_cells_behind_one_that_is_red_anyway_run() -> None:
    result = judge(make_run({"c": Status.MISMATCH}, red="a"))
    assert (result.outcome, result.cell) == (MutantOutcome.RED, "c@xnnpack:fp32")


def test_the_gate_is_asked_if_no_cell_is_red() -> None:
    result = judge(make_run(digests={"a": "2"}), refused="a delegate is lost")
    assert (result.outcome, result.cell) == (MutantOutcome.GATE, "b@xnnpack:fp32")
    assert result.detail == "a delegate is lost"
    assert judge(make_run({"c": Status.FAILED}), refused="x").outcome is MutantOutcome.RED


def test_another_program_alone_is_not_noticed() -> None:
    result = judge(make_run(digests={"c": "2"}))
    assert (result.outcome, result.cell) == (MutantOutcome.CHANGED, "c@xnnpack:fp32")


def test_without_a_cell_that_passes_nothing_is_judged() -> None:
    def run(mutant: Mutant | None, cells: Sequence[Cell]) -> _Ended:
        return _Ended([], "was ended by SIGKILL")

    result = judge(run)
    assert (result.outcome, result.tried) == (MutantOutcome.INVALID, 0)


def test_equal_programs_show_nothing() -> None:
    assert judge(make_run()).outcome is MutantOutcome.UNCHANGED


def test_an_invalid_mutant_runs_no_cell() -> None:
    result = judge(lambda mutant, cells: _Ended([], invalid="does not compile"))
    assert (result.outcome, result.detail) == (MutantOutcome.INVALID, "does not compile")


@pytest.mark.nightly
def test_a_worker_observes_installed_code_mutants_hangs_and_deaths(tmp_path: Path) -> None:
    one = _Judge(_Baseline(), threading.Event(), lambda before, after: "", Path("suites"), tmp_path)
    cells = [
        make_cell("exp/2d", suite="suites.ops.unary"),
        make_cell("abs/2d", suite="suites.ops.unary"),
    ]
    try:
        plain, again = one._run(None, cells), one._run(None, cells)
        assert [each.cell.status for each in plain.observed] == [Status.PASSED] * 2
        assert [each.digest for each in plain.observed] == [each.digest for each in again.observed]
        assert all(each.digest for each in plain.observed)
        path = "executorch/backends/xnnpack/operators/node_visitor.py"
        process = one._process
        assert process is not None
        job = CellJob(str(ROOT / "suites/ops/unary.py"), "exp/2d", "xnnpack:fp32")
        process.send(
            MutationRequest(mutant=None, cells=[job], folder=str(tmp_path), cell_timeout=0.001)
        )
        (event,) = process.events()
        assert event.answer == b"did not end in 0.001 s"  # type: ignore[union-attr]
        file = next(file for file in list_vendor_files() if file.name == path)
        mutants = list_mutants(file.path.read_bytes(), path, "xnnpack")
        dropped = next(each for each in mutants if each.before.startswith("self.define_tensor("))
        judged = one.judge(dropped, cells, 2)
        assert (judged.outcome, judged.tried) == (MutantOutcome.RED, 1)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        assert len(one._run(None, cells).observed) == 2, "a worker that died is started again"
        lost = [make_cell("no/case", suite="suites.ops.unary"), make_cell("x", suite="suites.no")]
        assert [each.cell.status for each in one._run(None, lost).observed] == [Status.FAILED] * 2
    finally:
        one.close()


@pytest.mark.nightly
def test_a_campaign_is_the_same_again_and_goes_on(tmp_path: Path) -> None:
    run = tmp_path / "run"

    def conform(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "harness.cli", *arguments],
            cwd=ROOT, env=environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip

    recorded = conform(
        "coverage",
        "record",
        "--run-dir",
        str(run),
        "suites/ops/unary.py",
        "-k",
        "2d and xnnpack:fp32",
    )
    assert recorded.returncode == 0, recorded.stderr
    options = ("--run", str(run), "-n", "1")
    first = conform("mutate", "xnnpack", "--sample", "5", *options)
    assert first.returncode in (0, 1), first.stderr
    found = read_campaign(run / "mutation" / "xnnpack").results
    assert len(found) == 5
    more = conform("mutate", "xnnpack", "--sample", "7", *options)
    assert "5 of 7 mutants have a result" in more.stderr
    results = read_campaign(run / "mutation" / "xnnpack").results
    assert {name: results[name].outcome for name in found} == {
        name: each.outcome for name, each in found.items()
    }
    assert len(results) == 7
    red = next(each for each in results.values() if each.outcome is MutantOutcome.RED)
    shown = conform("mutate", "show", red.mutant.id, "--run", str(run))
    assert f"conform mutate try {red.mutant.id}" in shown.stdout
    tried = conform("mutate", "try", red.mutant.id, red.cell, "--run", str(run))
    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert conform("mutate", "compare", str(run), str(run)).returncode == 0
