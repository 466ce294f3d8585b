"""Cells that use too much memory are ended and recorded, and large cells do not run together."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import pytest

from harness.errors import CaseError
from harness.model.case import Case
from harness.pytest_plugin.tests.sessions import outcomes, run
from harness.record.cell import Status
from harness.record.folder import load

SUITE = """
import json, os, time
import torch
from harness.model.case import Case

class Add(torch.nn.Module):
    def forward(self, x):
        # Tensors that export traces have no memory.
        if not torch.compiler.is_exporting():
            self.allocate()
        return x + x

    def allocate(self):
        pass

class Steps(Add):
    def allocate(self):
        kept = []
        while True:
            kept.append(torch.ones(1 << 18))

class Giant(Add):
    def allocate(self):
        torch.ones(1 << 48)

class Much(Add):
    def allocate(self):
        torch.ones(80 << 20)

def slow():
    begin = time.time()
    time.sleep(0.3)
    with open("times", "a") as file:
        file.write(json.dumps([begin, time.time()]) + "\\n")
    return Add(), (torch.randn(2, 3),)

def case(name, module=Add, **fields):
    return Case(name, lambda: (module(), (torch.randn(2, 3),)), **fields)

CASES = [{cases}]
"""


def suite(project: Path, cases: str) -> None:
    (project / "suites" / "small.py").write_text(SUITE.replace("{cases}", cases))


@pytest.mark.nightly
def test_a_cell_that_allocates_without_end_costs_one_row(project: Path) -> None:
    suite(
        project,
        'case("add/a"), case("hog/steps", Steps), case("hog/giant", Giant),'
        'case("ask/more", Much, memory=1), case("add/b")',
    )
    result = run(project, "-n", "1", "--cell-memory", "0.2")
    assert result.returncode == 1, result.stdout
    record = load(project / "run")
    assert record.is_complete, record.incompleteness
    assert outcomes(record) == {
        "add/a": Status.PASSED,
        "hog/steps": Status.CRASHED,
        "hog/giant": Status.CRASHED,
        "ask/more": Status.PASSED,
        "add/b": Status.PASSED,
    }
    ended, refused = (record.cell(f"hog/{name}@null:eager") for name in ("steps", "giant"))
    assert ended.stage == "build"
    assert "GiB at stage build; the budget is 0.2 GiB above" in str(ended.error)
    assert 0.2 * 2**30 < ended.memory["build"] < 0.8 * 2**30
    assert "conform repro hog/steps@null:eager" in result.stdout
    assert refused.stage == "build"
    assert "GiB at stage build, and more was refused: CaseError" in str(refused.error)
    more = record.cell("ask/more@null:eager")
    assert more.memory["reference"] > 0.2 * 2**30
    assert set(more.stages) <= set(more.memory)


@pytest.mark.nightly
def test_cells_that_do_not_fit_the_machine_run_one_at_a_time(project: Path) -> None:
    suite(project, ",".join(f'Case("add/{name}", slow, memory=2e6)' for name in "abcd"))
    result = run(project, "-n", "2", "--cell-memory", "1e6")
    assert result.returncode == 0, result.stdout
    assert "cells of 2 workers wait for each other: 1e+06 GiB each (--cell-memory)" in result.stdout
    times = sorted(map(json.loads, (project / "times").read_text().splitlines()))
    assert len(times) == 4
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(times))
    assert {cell.worker for cell in load(project / "run").cells} == {"gw0", "gw1"}


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="refuses nothing elsewhere")
def test_without_workers_what_the_machine_does_not_have_is_refused(project: Path) -> None:
    (project / "conftest.py").write_text(
        "from harness.pytest_plugin.items import AVAILABLE_MEMORY\n"
        'pytest_plugins = ["harness.pytest_plugin"]\n'
        "def pytest_configure(config):\n"
        "    config.stash[AVAILABLE_MEMORY] = 600 << 20\n"
    )
    suite(project, 'case("add/a"), case("hog/steps", Steps), case("add/b")')
    assert run(project, "-n", "0", "--cell-memory", "0.1").returncode == 1
    record = load(project / "run")
    hog = record.cell("hog/steps@null:eager")
    assert (hog.status, hog.stage) == (Status.CRASHED, "build")
    assert "and more was refused" in str(hog.error)
    assert record.counts[Status.PASSED] == 2


@pytest.mark.parametrize("memory", [-1.0, float("nan"), float("inf")])
def test_a_case_asks_for_memory_that_can_be_had(memory: float) -> None:
    with pytest.raises(CaseError, match=r"case 'a' has memory=(-1|nan|inf) GiB"):
        Case("a", lambda: None, memory=memory)  # type: ignore[arg-type,return-value]
