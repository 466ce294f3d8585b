"""Sessions trace models with wrong outputs; a crash while tracing does not change the status."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.pytest_plugin.tests.sessions import run
from harness.record.cell import Cell, Status
from harness.record.folder import load

#: XNNPACK computes this gelu as the exact one.
SUITE = """
import ctypes, time
import torch
from harness import Case, Limitation, Status
from harness.tracing import divergence

find = divergence.trace

def trace(*arguments, **options):
    {then}
    return find(*arguments, **options)

divergence.trace = trace

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x * 1.5, approximate="tanh") + 1

def build():
    return Net(), (torch.linspace(-3, 3, 12).reshape(3, 4),)

CASES = [Case("net/wrong", build, tags=frozenset({{"model"}}))]
LIMITATIONS = {limitations}
"""
KNOWN = """[Limitation(target="*", case="*", reason="known", outcome=Status.MISMATCH)]"""


def record(project: Path, then: str, *arguments: str, limitations: str = "[]") -> tuple[Cell, str]:
    suites = project / "suites"
    (suites / "small.py").write_text(SUITE.format(then=then, limitations=limitations))
    (suites / "limitations.py").write_text(
        f"from harness import Limitation, Status\nLIMITATIONS = {limitations}\n"
    )
    result = run(project, *arguments, targets="xnnpack:fp32")
    assert result.returncode == (0 if limitations == KNOWN else 1), result.stdout
    kept = load(project / "run")
    assert kept.is_complete, kept.incompleteness
    (cell,) = kept.cells
    assert (cell.stage, cell.tags) == ("compare", ["model"])
    assert cell.numerics[0].bound_used > 1
    assert "trace" not in cell.memory
    return cell, result.stdout


@pytest.mark.nightly
@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_wrong_model_is_traced(project: Path, workers: str) -> None:
    cell, printed = record(project, "pass", "-n", workers)
    assert cell.status is Status.MISMATCH
    assert cell.first_divergence is not None
    assert cell.first_divergence.op == "aten.gelu.default"
    assert "first diverging node: gelu (aten.gelu.default)" in printed


@pytest.mark.nightly
def test_a_worker_that_dies_while_it_traces_leaves_the_verdict(project: Path) -> None:
    cell, printed = record(project, "ctypes.string_at(0)", "-n", "1", limitations=KNOWN)
    assert cell.status is Status.XFAILED
    assert cell.first_divergence is None
    assert cell.trace_skipped.startswith("tracing it ended the worker: ")
    assert "Fatal Python error" in cell.trace_skipped
    assert "1 xfailed" in printed


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("then", "limit", "said"),
    [
        ("time.sleep(600)", ("--cell-timeout", "60"), "Timeout (0:01:00)!"),
        ("kept = [b'x' * (1 << 30)] * 1 + [bytes(1 << 30)]; time.sleep(600)",
         ("--cell-memory", "0.8"), "GiB at stage trace; the budget is 0.8 GiB"),
    ],
)  # fmt: skip
def test_limits_hold_while_a_cell_is_traced(
    project: Path, then: str, limit: tuple[str, str], said: str
) -> None:
    cell, _ = record(project, then, "-n", "1", *limit)
    assert cell.status is Status.MISMATCH
    assert said in cell.trace_skipped


@pytest.mark.nightly
def test_who_does_not_want_it_is_not_made_to_wait(project: Path) -> None:
    cell, _ = record(project, "ctypes.string_at(0)", "-n", "1", "--trace-time", "0")
    assert (cell.status, cell.first_divergence, cell.trace_skipped) == (Status.MISMATCH, None, "")
