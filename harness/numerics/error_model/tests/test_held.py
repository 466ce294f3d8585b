"""Exact results have no rounding error: positions counted in floats, and values from them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from harness.numerics.error_model.exact_results import is_representable
from harness.numerics.error_model.rules import get_rule
from harness.numerics.tests.test_oracle import UNIT, largest_bound

COUNT = torch.arange(64.0)


def embed_positions(x: torch.Tensor) -> torch.Tensor:
    """Embed positions as object detectors do."""
    pair = 2 * torch.div(torch.arange(64.0), 2, rounding_mode="floor") / 64
    return torch.sin(x[:, None] / 10000**pair)


EXACT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "embedded": embed_positions,
    "halved": lambda x: torch.floor(torch.arange(6.0) / 2) * x[:6],
    "whole": lambda x: torch.floor((torch.arange(6.0) + 1) * 0.5 - 3) * x[:6],
    "every second": lambda x: torch.where(torch.arange(6.0) * 2 / 4 % 1 == 0, x[:6], -x[:6]),
    "counted": lambda x: torch.trunc(torch.arange(6).float() / 2) * x[:6],
}
ROUNDED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a third": lambda x: torch.floor(torch.arange(6.0) / 3) * x[:6],
    "a tenth": lambda x: torch.floor(torch.arange(10.0, 50, 10) * 0.1) * x[:4],
    "computed": lambda x: torch.floor(x * x / (x * x)) * x,
}


@pytest.mark.parametrize("name", EXACT)
def test_a_held_value_is_not_moved_over_a_jump(name: str) -> None:
    assert largest_bound(EXACT[name], 1 + torch.rand(8)) < 1e-4


def test_a_formula_that_targets_replace_errs_as_a_whole() -> None:
    """A cast of the mean is exact, but targets fold it into a scale and a shift, whose rounding
    dominates where input and mean cancel."""
    norm = torch.nn.BatchNorm1d(2, affine=False).eval()
    assert norm.running_mean is not None
    norm.running_mean.copy_(torch.tensor([1.0, -2.0]))
    assert largest_bound(norm, torch.tensor([[1.0 + 2.0**-10, -2.0 + 2.0**-10]])) > 1e-8


@pytest.mark.parametrize("name", ROUNDED)
def test_values_that_targets_round_separately_are_still_rounded(name: str) -> None:
    assert largest_bound(ROUNDED[name], 1 + torch.rand(8)) > 0.5


@pytest.mark.parametrize(
    ("values", "unit", "expected"),
    [
        (torch.tensor([0.0, 1.0, -3.0, 0.75]), UNIT, True),
        (torch.tensor([1.0, 1.0 + 2.0**-24], dtype=torch.float64), UNIT, False),
        (torch.tensor([256.0, 257.0]), 2.0**-8, False),  # of bfloat16
        (torch.tensor([256.0, 258.0]), 2.0**-8, True),
        (torch.tensor([2.0**-20]), 2.0**-11, False),  # float16 may flush it
        (torch.tensor([2.0**16]), 2.0**-11, False),
        (torch.cat([torch.zeros(5000), torch.tensor([1 / 3])]).double(), UNIT, True),
        (torch.tensor([0.0] * 5000 + [1 / 3], dtype=torch.float64), UNIT, False),
        (torch.empty(0), UNIT, True),
        (torch.tensor([1.0]), 0.0, False),  # Before any dtype is known.
    ],
)
def test_digits(values: torch.Tensor, unit: float, expected: bool) -> None:
    assert is_representable(values, unit) is expected


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("div", (COUNT, 2.0), True),
        ("div", (COUNT, -0.25), True),
        ("div", (COUNT, torch.tensor(4.0)), True),
        ("div", (COUNT, 3.0), False),
        ("div", (COUNT, 0.0), False),
        ("div", (COUNT, COUNT), False),
        ("exp", (COUNT,), False),
        ("add", (COUNT, COUNT), True),
    ],
)
def test_operations(name: str, args: tuple[object, ...], expected: bool) -> None:
    assert get_rule(name).rounds_correctly(args) is expected
