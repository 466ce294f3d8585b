"""The record of a wrong model names its first diverging node automatically."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from harness import Case, Cell, CellOptions, Limitation, Severity, Status, Tester, run_cell
from harness.backend_api import Recipe
from harness.record.cell import MODEL
from harness.tracing import divergence
from harness.tracing.divergence import is_wrong_model, trace_cell
from harness.tracing.tests.planting import make_faulty_recipe, swap_operator
from harness.tracing.trace import trace
from harness.tracing.trace_result import Found, add_trace

TARGET = "portable:fp32"
WRONG = make_faulty_recipe(TARGET, swap_operator("aten.tanh.default", "aten.erf.default"))
KNOWN = [Limitation(target=TARGET, case="*", reason="tanh is erf", outcome=Status.MISMATCH)]


class Chain(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cos(torch.tanh(torch.sin(x)) + x)


def case(*tags: str) -> Case:
    return Case("chain", lambda: (Chain(), (torch.randn(4, 8),)), tags=frozenset(tags))


MODEL_CASE = case(MODEL)


def wrong(recipe: Recipe = WRONG, of: Case = MODEL_CASE, **options: Any) -> Cell:
    return run_cell(of, TARGET, recipe=recipe, **options)


def traced(cell: Cell, **options: Any) -> Cell:
    found = trace_cell(cell, MODEL_CASE, recipe=WRONG, **options)
    assert found is not None
    return add_trace(cell, found)


@pytest.mark.parametrize("limitations", [(), KNOWN], ids=["red", "xfailed"])
def test_a_planted_fault_is_named_in_the_record(limitations: Any) -> None:
    cell = wrong(limitations=limitations)
    assert cell.status is (Status.XFAILED if limitations else Status.MISMATCH)
    # An expected mismatch is traced as well.
    assert cell.severity is Severity.MAJOR
    assert is_wrong_model(cell)
    after = traced(cell)
    assert after.first_divergence is not None
    assert (after.first_divergence.node, after.first_divergence.originates_here) == ("tanh", True)
    assert (after.first_divergence.note, after.trace_skipped) == ("", "")
    # All other fields of the record are unchanged.
    assert replace_divergence(after) == replace_divergence(cell)
    assert Cell.from_json(after.to_json()).first_divergence == after.first_divergence


def replace_divergence(cell: Cell) -> str:
    known = Cell.from_json(cell.to_json())
    known.first_divergence = None
    return known.to_json()


def test_cells_that_cannot_be_traced_are_left_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divergence, "trace", None)  # a call would fail
    right = wrong(make_faulty_recipe(TARGET, lambda node: False))
    no_model = wrong(of=case("fp32"))
    in_lowering = wrong(make_faulty_recipe(TARGET, lambda node: 1 // 0 > 0))
    assert (right.status, no_model.status) == (Status.PASSED, Status.MISMATCH)
    assert (in_lowering.status, in_lowering.stage) == (Status.FAILED, "lower")
    for cell in (right, no_model, in_lowering):
        assert trace_cell(cell, MODEL_CASE) is None
        assert (cell.first_divergence, cell.trace_skipped) == (None, "")


def test_a_program_that_does_not_execute_has_no_values_to_compare() -> None:
    cell = Cell(case="chain", target=TARGET, status=Status.FAILED, stage="run", tags=[MODEL])
    assert "no values to compare" in str(trace_cell(cell, MODEL_CASE))


def test_an_error_in_tracing_does_not_change_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Found:
        raise RuntimeError("no such node")

    cell = wrong()
    monkeypatch.setattr(divergence, "trace", fails)
    after = traced(cell)
    assert (after.status, after.error, after.stage) == (cell.status, cell.error, "compare")
    assert after.first_divergence is None
    assert after.trace_skipped == "tracing failed: RuntimeError: no such node"


def test_a_cell_that_passes_when_traced_is_reported() -> None:
    cell = wrong()
    found = trace_cell(cell, MODEL_CASE, recipe=make_faulty_recipe(TARGET, lambda node: False))
    assert isinstance(found, Found)
    assert (
        add_trace(cell, found).trace_skipped
        == "the cell was green when it was run again for tracing"
    )


def test_tracing_that_would_exceed_its_time_limit_is_not_started() -> None:
    cell = replace_seconds(wrong(), 9.0)
    assert (
        "it takes 9 s to run the cell once, and 8 s were left"
        in traced(cell, seconds=8).trace_skipped
    )


def replace_seconds(cell: Cell, seconds: float) -> Cell:
    cell.seconds = seconds
    return cell


def test_a_search_that_times_out_reports_that_the_node_may_not_be_the_first() -> None:
    """The time suffices for the whole program only, so the result is a wrong output."""
    found = trace(MODEL_CASE, TARGET, recipe=WRONG, seconds=1e-6)
    assert found.stopped_early
    assert found.first is not None
    assert (found.first.node, found.first.born, found.programs) == ("cos", None, 1)
    assert found.divergence is not None
    assert found.divergence.note.startswith("given up; programs tried: 1, in ")
    assert str(found.divergence).endswith("a node before it may be wrong")
    ended = trace(MODEL_CASE, TARGET, recipe=WRONG, seconds=300)
    assert not ended.stopped_early
    assert ended.first is not None
    assert ended.first.node == "tanh"


def test_a_failed_delegation_requirement_is_not_traced() -> None:
    """A requirement is not met; no value is wrong."""
    recipe = replace(WRONG, require_delegation=True)
    cell = wrong(recipe)
    assert (cell.status, cell.stage) == (Status.FAILED, "lower")
    assert trace_cell(cell, MODEL_CASE, recipe=recipe) is None


def test_a_cell_that_was_just_run_is_not_run_again_to_be_traced() -> None:
    ran: list[Tester] = []
    cell = wrong(options=CellOptions(on_compared=ran.append))
    found, again = (
        trace_cell(cell, MODEL_CASE, recipe=WRONG, finished_tester=one) for one in (ran[0], None)
    )
    assert isinstance(found, Found)
    assert isinstance(again, Found)
    assert found.programs == again.programs - 1
    assert found.first == again.first
    # A cell without a verdict has no tester to reuse.
    ran.clear()
    wrong(
        make_faulty_recipe(TARGET, lambda node: 1 // 0 > 0),
        options=CellOptions(on_compared=ran.append),
    )
    assert ran == []
