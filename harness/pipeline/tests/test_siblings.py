"""Shared results of the cells of a case equal the results of each cell alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from harness.model.case import Case
from harness.model.precision import Precision
from harness.numerics import unperturbed
from harness.numerics.oracle import Reference
from harness.pipeline import shared_case_work
from harness.pipeline.shared_case_work import SharedCaseWork
from harness.pipeline.tester import Tester


class Counting(torch.nn.Module):
    """Has state, a large sum, a discontinuous function, and an input that it writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(512, 160)
        self.register_buffer("seen", torch.zeros(160))

    def forward(self, x: torch.Tensor, into: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        self.seen.add_(y.mean(0))
        into.add_(1.5)
        return torch.round(y * 4) + torch.tanh(y) + self.seen


CASE = Case("counting", lambda: (Counting(), (torch.randn(3, 512), torch.randn(4))))
COARSE = Precision(argument_roundings=2.0, functions={"tanh": 12.0})


def _refer(
    case: Case,
    shared: SharedCaseWork | None,
    precision: Precision = Precision(),  # noqa: B008
) -> Reference:
    tester = Tester(case, "null:eager", shared_work=shared)
    tester.recipe = replace(tester.recipe, precision=precision)
    return tester.compute_reference().reference


@pytest.fixture
def exact_runs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    runs: list[Any] = []
    its = shared_case_work.run_unperturbed

    def counted(*args: Any, **kwargs: Any) -> Any:
        runs.append(args)
        return its(*args, **kwargs)

    monkeypatch.setattr(shared_case_work, "run_unperturbed", counted)
    return runs


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, Sequence) and not isinstance(one, str):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def _same_references(one: Reference, other: Reference) -> bool:
    return all(
        _same(getattr(one, name), getattr(other, name))
        for name in ("oracle", "bound", "eager", "places", "alternatives")
    )


def test_each_cell_gets_the_result_that_it_would_compute_alone(exact_runs: list[Any]) -> None:
    shared = SharedCaseWork()
    # The coarse model before and after the fine one: runs must not affect each other.
    for precision in (COARSE, Precision(), replace(COARSE, samples=16), COARSE):
        found = _refer(CASE, shared, precision)
        assert _same_references(found, _refer(CASE, None, precision))
    assert len(exact_runs) == 1


def test_targets_with_equal_rounding_share_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = SharedCaseWork()
    first = _refer(CASE, shared)
    monkeypatch.setattr(shared_case_work, "add_bounds", None)
    assert _refer(CASE, shared) is first


@pytest.mark.parametrize(
    ("other", "is_shared"),
    [
        (Precision(functions={"erf": 5.0}, division_roundings=3.0, running_means=True), True),
        (Precision(float32_sums=frozenset({"bmm"})), True),
        (Precision(functions={"tanh": 5.0}), False),
        (Precision(argument_roundings=2.0), False),
        (Precision(float32_sums=frozenset({"addmm"})), False),
        (Precision(safety=8.0), False),
        (Precision(samples=16), False),
    ],
)
def test_bounds_are_shared_by_targets_with_equal_rounding_of_the_program(
    other: Precision, is_shared: bool
) -> None:
    """The program has sums of products, a mean and a tanh, but no division and no variance."""
    shared = SharedCaseWork()
    first = _refer(CASE, shared)
    found = _refer(CASE, shared, other)
    assert (found is first) == is_shared
    assert _same_references(found, _refer(CASE, None, other))


def test_other_numbers_are_run_again(exact_runs: list[Any]) -> None:
    scale = iter([1.0, 1.0, 1.0001])
    case = Case("moody", lambda: (torch.nn.Hardtanh(), (torch.ones(3) * next(scale),)))
    shared = SharedCaseWork()
    for _ in range(3):
        _refer(case, shared)
    assert len(exact_runs) == 2


def test_other_code_is_run_again(exact_runs: list[Any]) -> None:
    """State and inputs are equal; eager outputs are not."""
    modules = iter([torch.nn.ReLU(), torch.nn.ReLU6()])
    case = Case("moody", lambda: (next(modules), (torch.full((3,), 7.0),)))
    shared = SharedCaseWork()
    assert [_refer(case, shared).oracle[0][0][0].item() for _ in range(2)] == [7.0, 6.0]
    assert len(exact_runs) == 2


def test_one_case_is_cached(exact_runs: list[Any]) -> None:
    shared = SharedCaseWork()
    other = replace(CASE, name="other")
    for case in (CASE, other, CASE):
        _refer(case, shared)
    assert len(exact_runs) == 3


def test_only_references_of_a_large_module_are_cached(
    exact_runs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unperturbed, "LARGE", 1000)
    shared = SharedCaseWork()
    first = _refer(CASE, shared)
    assert _refer(CASE, shared) is first
    assert len(exact_runs) == 1
    assert not shared._exact, "what its runs met on the way takes many times as much"
    assert _same_references(_refer(CASE, shared, COARSE), _refer(CASE, None, COARSE))
    assert len(exact_runs) == 2


@pytest.mark.parametrize("limit", ["_MAX_HASHED_ELEMENTS", "_MAX_REFERENCE_BYTES"])
def test_a_result_that_is_too_large_is_not_cached(
    limit: str, exact_runs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unperturbed, "LARGE", 1000)
    monkeypatch.setattr(shared_case_work, limit, 1000)
    shared = SharedCaseWork()
    for _ in range(2):
        _refer(CASE, shared)
    assert len(exact_runs) == 2


def test_a_single_element_may_have_any_stride(exact_runs: list[Any]) -> None:
    class Corner(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.diagonal(2)

    shared, case = SharedCaseWork(), Case("corner", lambda: (Corner(), (torch.randn(5, 3),)))
    for _ in range(2):
        _refer(case, shared)
    assert len(exact_runs) == 1
