"""Every metric is defined for every tensor, and structure is compared before values."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import example, given, strategies as st

from harness.execution.program import TensorSpec
from harness.numerics.compare import compare, compare_output
from harness.numerics.metrics.differences import Difference
from harness.numerics.oracle import Reference
from harness.record.cell import Numerics

INF, NAN = math.inf, math.nan


def judge(
    actual: torch.Tensor,
    expected: torch.Tensor,
    bound: float = 0.0,
    spec: TensorSpec | None = None,
) -> Numerics:
    oracle = expected.double() if expected.is_floating_point() else expected
    limits = torch.full(expected.shape, bound, dtype=torch.float64)
    return compare_output(actual, oracle, limits, expected, spec=spec)


def floats(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


@pytest.mark.parametrize(
    ("actual", "expected", "sqnr", "frobenius", "angle"),
    [
        (floats(), floats(), INF, 0.0, 1.0),
        (floats(0, 0), floats(0, 0), INF, 0.0, 1.0),
        (floats(0, 1), floats(0, 0), -INF, INF, 0.0),
        (floats(0, 0), floats(3, 4), 0.0, 1.0, 0.0),
        (floats(3, 4), floats(3, 4), INF, 0.0, 1.0),
        (floats(-3, -4), floats(3, 4), -20 * math.log10(2), 2.0, -1.0),
        (floats(NAN, 1), floats(NAN, 1), INF, 0.0, 1.0),
        (floats(INF, 1), floats(INF, 1), INF, 0.0, 1.0),
        (floats(NAN, 1), floats(0, 1), -INF, INF, 0.0),
        (floats(INF, 1), floats(-INF, 1), -INF, INF, 0.0),
        (torch.tensor([True, False]), torch.tensor([True, False]), INF, 0.0, 1.0),
        (torch.tensor([3, 4]), torch.tensor([3, 4]), INF, 0.0, 1.0),
    ],
)
def test_metrics_by_hand(
    actual: torch.Tensor, expected: torch.Tensor, sqnr: float, frobenius: float, angle: float
) -> None:
    found = Difference.from_tensors(actual, expected)
    assert found.sqnr_db == pytest.approx(sqnr)
    assert found.relative_frobenius == pytest.approx(frobenius)
    assert found.cosine == pytest.approx(angle)


def test_ulp_is_the_spacing_of_the_output_dtype() -> None:
    expected = floats(1.0, 1000.0)
    actual = expected.clone()
    actual[1] = torch.nextafter(expected[1], floats(2000.0)[0])
    assert judge(actual, expected, bound=1.0).max_ulp == pytest.approx(1.0)
    assert judge(torch.tensor([1]), torch.tensor([1])).max_ulp is None


@pytest.mark.parametrize(
    ("actual", "expected", "bound", "exceeding"),
    [
        (floats(1.0, 2.0), floats(1.0, 2.5), 0.5, 0),
        (floats(1.0, 2.0), floats(1.0, 2.5), 0.49, 1),
        (floats(NAN), floats(NAN), 0.0, 0),
        (floats(NAN), floats(1.0), 9.0, 1),
        (floats(1.0), floats(NAN), 9.0, 1),
        (floats(INF), floats(INF), 0.0, 0),
        (floats(-INF), floats(INF), INF, 1),
        (floats(3e38), floats(INF), 1.0, 1),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), 9.0, 1),
        (torch.tensor([True]), torch.tensor([False]), 9.0, 1),
        (torch.tensor([2**53]), torch.tensor([2**53 + 1]), 9.0, 1),
    ],
)
def test_elements_beyond_the_bound_are_counted(
    actual: torch.Tensor, expected: torch.Tensor, bound: float, exceeding: int
) -> None:
    row = judge(actual, expected, bound)
    assert row.exceeding == exceeding
    assert (row.problem is None) == (exceeding == 0)


def test_overflow_in_the_output_dtype_is_not_an_error() -> None:
    actual = torch.tensor([INF], dtype=torch.float16)
    oracle = torch.tensor([1e6], dtype=torch.float64)
    row = compare_output(actual, oracle, torch.zeros(1, dtype=torch.float64), actual)
    assert row.problem is None
    assert row.max_abs == 0


@pytest.mark.parametrize(
    ("actual", "problem"),
    [
        (torch.zeros(2, 3), r"shape \(2, 3\), expected \(3, 2\)"),
        (torch.zeros(3, 2, dtype=torch.float64), "dtype float64, expected float32"),
        (torch.zeros(6), r"shape \(6,\)"),
    ],
)
def test_structure_is_compared_before_values(actual: torch.Tensor, problem: str) -> None:
    row = judge(actual, torch.zeros(3, 2), bound=INF)
    assert row.problem is not None
    assert __import__("re").search(problem, row.problem)
    assert row.max_abs == INF


def test_declared_dim_order_is_checked() -> None:
    value = torch.arange(24.0).reshape(1, 2, 3, 4)
    declared = TensorSpec(torch.float32, (1, 2, 3, 4), (0, 2, 3, 1), False)
    wrong = judge(value, value, spec=declared)
    assert wrong.problem is not None
    assert "dim order" in wrong.problem
    right = judge(value.contiguous(memory_format=torch.channels_last), value, spec=declared)
    assert right.problem is None


def test_figures_of_a_problem_are_of_the_worst_element() -> None:
    oracle = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    bound = torch.tensor([1e-12, 1.0, 1e-3], dtype=torch.float64)
    actual = oracle + torch.tensor([1.28e-12, 0.5, 0.0], dtype=torch.float64)
    row = compare_output(actual, oracle, bound, oracle)
    assert row.max_abs == 0.5
    assert row.worst_index == [0]
    assert row.worst_error == pytest.approx(1.28e-12, rel=1e-3)
    assert row.bound_used == row.worst_error / row.bound
    assert "(worst 1.28 times it: error 1.28e-12, bound 1e-12)" in str(row.problem)
    assert "0.5" not in str(row.problem)


def test_the_worst_element_is_a_wrong_one() -> None:
    """An integer that no run returned is wrong, even if others that conform are further away."""
    oracle, bound = torch.tensor([5, 5]), torch.tensor([4.0, 4.0], dtype=torch.float64)
    nines = torch.tensor([[9, 9]])
    row = compare_output(torch.tensor([9, 6]), oracle, bound, oracle, alternatives=nines)
    assert (row.exceeding, row.worst_index, row.worst_error) == (1, [1], 1.0)
    assert row.bound_used > 1


def test_number_of_outputs_is_compared() -> None:
    value = torch.zeros(2)
    zeros = [[torch.zeros(2, dtype=torch.float64)] * 2]
    verdict = compare([[value]], Reference(zeros, zeros, [[value, value]]))
    assert not verdict.passed
    assert "1 outputs, expected 2" in str(verdict.problem)


@given(
    st.lists(st.floats(width=32, allow_nan=True, allow_infinity=True), max_size=8),
    st.lists(st.floats(width=32, allow_nan=True, allow_infinity=True), max_size=8),
)
@example([torch.finfo(torch.float32).max], [INF])
def test_no_metric_ever_raises_or_hides_a_difference(left: list[float], right: list[float]) -> None:
    size = min(len(left), len(right))
    actual, expected = floats(*left[:size]), floats(*right[:size])
    row = judge(actual, expected)
    same = torch.equal(actual.isnan(), expected.isnan()) and torch.equal(
        actual[~actual.isnan()], expected[~expected.isnan()]
    )
    assert (row.problem is None) == same
    for value in (row.max_abs, row.mean_abs, row.sqnr_db, row.rel_fro, row.cosine):
        assert not math.isnan(value)


def test_a_call_without_results_is_a_mismatch() -> None:
    value, zeros = torch.ones(2), torch.zeros(2, dtype=torch.float64)
    reference = Reference([[value.double()]] * 2, [[zeros]] * 2, [[value]] * 2)
    assert compare([[value]] * 2, reference).passed
    short = compare([[value]], reference)
    assert not short.passed
    assert short.problem == "results of 1 calls, expected 2"
    assert not compare([[value]] * 3, reference).passed


def test_the_module_decides_the_structure_of_a_quantized_programs_result() -> None:
    """The graph with the values may differ from it; a recipe may narrow a dtype."""
    model, graph = torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 3, dtype=torch.int32)
    bound = torch.zeros(2, 3, dtype=torch.float64)

    def problem(actual: Any, eager: Any = graph, **more: Any) -> str | None:
        return compare_output(actual, eager, bound, eager, model=model, **more).problem

    assert problem(graph) == "dtype int32, expected int64"
    assert problem(graph, narrowed={"int64": "int32"}) is None
    assert problem(model, narrowed={"int64": "int32"}) is None
    assert problem(graph.short(), narrowed={"int64": "int32"}) == "dtype int16, expected int64"
    assert problem(model[0]) == "shape (3,), expected (2, 3)"
    assert "the quantized graph returns shape" in (problem(model, model[:1]) or "")


def test_a_value_that_the_quantized_graph_lost_is_missed() -> None:
    reference = Reference([[None]], [[None]], [[None]], model=[[torch.ones(2)]])
    verdict = compare([[None]], reference)
    assert verdict.problem is not None
    assert "None, expected float32" in verdict.problem
