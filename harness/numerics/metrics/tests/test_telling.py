"""The share of conclusive elements, when it is too small, and why."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st

from harness.execution.interface import ValuePosition
from harness.numerics.compare import compare_output
from harness.numerics.metrics.conclusiveness import compute_conclusive_share, find_vacuous_reason
from harness.record.cell import Cell, Numerics, Status
from harness.record.evidence import CONFIDENCE, ENOUGH, FAULT, Vacuity, VacuousCause, is_conclusive

INF, NAN = math.inf, math.nan


def judge(values: torch.Tensor, bound: torch.Tensor | float) -> tuple[float, Vacuity | None]:
    limits = torch.as_tensor(bound, dtype=torch.float64).expand(values.shape)
    share = compute_conclusive_share(values, limits)
    return share, find_vacuous_reason(values, limits, share)


def test_the_number_is_the_least_that_sees_a_fault_of_that_size() -> None:
    assert 1 - (1 - FAULT) ** ENOUGH >= CONFIDENCE > 1 - (1 - FAULT) ** (ENOUGH - 1)
    assert ENOUGH == 59


@pytest.mark.parametrize(
    ("conclusive", "elements", "expected"),
    [
        (0, 0, False), (0, 8, False), (1, 1, True), (1, 4, True), (1, 20, True), (1, 21, False),
        (3, 1000, False), (49, 1000, False), (50, 1000, True), (1, 1000, False),
        (58, 100_000, False), (59, 100_000, True), (300, 1_000_000, True),
    ],
)  # fmt: skip
def test_few_conclusive_elements_are_no_evidence(
    conclusive: int, elements: int, expected: bool
) -> None:
    share = 1 - (elements - conclusive) / elements if elements else 0.0
    assert is_conclusive(share, elements) is expected


def test_a_network_with_three_conclusive_logits_in_a_thousand_passes_vacuously() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(1000, generator=generator, dtype=torch.float64) * 1e-3
    logits[[3, 500, 999]] = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    share, why = judge(logits, 0.1)
    assert share == pytest.approx(0.003)
    assert why == Vacuity(cause=VacuousCause.WIDE, passing_elements=997, constant=0.0)


GENERATOR = torch.Generator().manual_seed(1)
RANDOM = torch.rand(100, generator=GENERATOR, dtype=torch.float64)


@pytest.mark.parametrize(
    ("values", "bound", "cause", "alike", "constant"),
    [
        (torch.zeros(100), 1e-6, VacuousCause.EQUAL, 100, 0.0),
        (torch.full((100,), 7), 0.0, VacuousCause.EQUAL, 100, 7.0),
        (torch.ones(100, dtype=torch.bool), 0.0, VacuousCause.EQUAL, 100, 1.0),
        (RANDOM * 1e-3, 0.1, VacuousCause.WIDE, 100, 0.0),
        (300 + RANDOM, 2.0, VacuousCause.SPREAD, 100, None),
        (RANDOM, INF, VacuousCause.INFINITE, 100, None),
        (torch.full((100,), NAN), 0.0, VacuousCause.EQUAL, 100, NAN),
        (torch.full((100,), INF), 0.0, VacuousCause.EQUAL, 100, INF),
        (torch.zeros(0), 0.0, VacuousCause.EMPTY, 0, None),
        (torch.zeros(1), 1e-6, VacuousCause.EQUAL, 1, 0.0),
        (torch.ones(1), 2.0, VacuousCause.WIDE, 1, 0.0),
    ],
)
def test_reasons_of_a_vacuous_pass(
    values: torch.Tensor, bound: float, cause: VacuousCause, alike: int, constant: float | None
) -> None:
    share, why = judge(values, bound)
    assert share == 0
    assert why is not None
    assert (why.cause, why.passing_elements) == (cause, alike)
    if cause is not VacuousCause.SPREAD:
        assert str(why.constant) == str(constant)


def test_an_element_with_an_infinite_bound_is_not_conclusive() -> None:
    values = torch.arange(100, dtype=torch.float64)
    bound = torch.full((100,), 1e-6, dtype=torch.float64)
    assert judge(values, bound)[0] == pytest.approx(0.99)
    bound[4:] = INF
    share, why = judge(values, bound)
    assert share == pytest.approx(0.03)
    assert why == Vacuity(cause=VacuousCause.INFINITE, passing_elements=96, constant=None)
    # A constant of another kind would pass there, too.
    values[:4] = NAN
    assert judge(values, torch.where(values.isnan(), 0.0, bound))[0] == 0


def row(actual: torch.Tensor, oracle: torch.Tensor, bound: torch.Tensor) -> Numerics:
    place = ValuePosition("output", 1, "['logits']")
    return compare_output(actual, oracle, bound, oracle.to(actual.dtype), place=place)


@pytest.mark.parametrize("value", [5.0, NAN, INF])
def test_where_the_bound_is_infinite_nothing_is_judged(value: float) -> None:
    oracle = torch.arange(4, dtype=torch.float64)
    actual, bound = oracle.float(), torch.full((4,), 1e-6, dtype=torch.float64)
    actual[2], bound[2] = value, INF
    found = row(actual, oracle, bound)
    assert (found.exceeding, found.problem, found.severity) == (0, None, None)
    assert found.bound_used == 0
    assert math.isfinite(found.max_abs)
    assert found.sqnr_db > -INF
    everywhere = row(actual, oracle, torch.full_like(bound, INF))
    assert (everywhere.problem, everywhere.conclusive_share) == (None, 0)
    assert everywhere.bound == INF
    assert not everywhere.is_conclusive
    cell = Cell(case="a", target="b:c", status=Status.PASSED, numerics=[everywhere])
    again = Cell.from_json(cell.to_json())
    assert '"bound":"inf"' in cell.to_json()
    assert again == cell
    assert not again.is_conclusive
    # An infinite oracle requires the same infinity, for any bound.
    wrong = row(actual, torch.full((4,), INF, dtype=torch.float64), torch.full_like(bound, INF))
    assert wrong.exceeding >= 3


def test_a_row_names_its_output_and_why_its_pass_is_vacuous() -> None:
    oracle = torch.zeros(8, dtype=torch.float64)
    found = row(oracle.float(), oracle, oracle + 1e-6)
    assert found.name == "['logits']"
    assert found.vacuous == Vacuity(cause=VacuousCause.EQUAL, passing_elements=8, constant=0.0)
    values = torch.arange(8, dtype=torch.float64)
    assert row(values.float(), values, oracle + 1e-6).vacuous is None


def test_a_cell_is_evidence_where_one_of_its_outputs_is() -> None:
    oracle = torch.zeros(8, dtype=torch.float64)
    values = torch.arange(8, dtype=torch.float64)
    empty, full = row(oracle.float(), oracle, oracle), row(values.float(), values, oracle)
    for rows, expected in (([empty], False), ([empty, full], True), ([full], True)):
        cell = Cell(case="a", target="b:c", status=Status.PASSED, numerics=rows)
        assert cell.is_conclusive is expected


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-3, 3), st.sampled_from([0.0, 0.5, 1.0, 2.5, INF])), min_size=2)
)
def test_no_constant_conforms_at_more_elements_than_reported(
    pairs: list[tuple[int, float]],
) -> None:
    values, bound = torch.tensor(pairs, dtype=torch.float64).unbind(1)
    share = compute_conclusive_share(values, bound)
    alike = len(pairs) * (1 - share)
    counts = [int(((values - c / 4).abs() <= bound).sum()) for c in range(-24, 25)]
    assert max(counts) == round(alike)
    why = find_vacuous_reason(values, bound, share)
    assert (why is None) == is_conclusive(share, len(pairs))
