"""What rounds to itself does not err: positions that are counted in floats, and what they make."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from harness.numerics.error_model.exact_results import is_held
from harness.numerics.tests.test_oracle import UNIT, largest_bound

COUNT = torch.arange(64.0)


def embedded(x: torch.Tensor) -> torch.Tensor:
    """As detectors embed positions."""
    pair = 2 * torch.div(torch.arange(64.0), 2, rounding_mode="floor") / 64
    return torch.sin(x[:, None] / 10000**pair)


HELD: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "embedded": embedded,
    "halved": lambda x: torch.floor(torch.arange(6.0) / 2) * x[:6],
    "whole": lambda x: torch.floor((torch.arange(6.0) + 1) * 0.5 - 3) * x[:6],
    "every second": lambda x: torch.where(torch.arange(6.0) * 2 / 4 % 1 == 0, x[:6], -x[:6]),
    "counted": lambda x: torch.trunc(torch.arange(6).float() / 2) * x[:6],
}
OPEN: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a third": lambda x: torch.floor(torch.arange(6.0) / 3) * x[:6],
    "a tenth": lambda x: torch.floor(torch.arange(10.0, 50, 10) * 0.1) * x[:4],
    "computed": lambda x: torch.floor(x * x / (x * x)) * x,
}


@pytest.mark.parametrize("name", HELD)
def test_what_is_held_is_not_taken_over_a_jump(name: str) -> None:
    assert largest_bound(HELD[name], 1 + torch.rand(8)) < 1e-4


def test_a_formula_that_targets_have_another_for_errs_as_a_whole() -> None:
    """A cast of a mean rounds nothing; of the scale and the shift that it is folded into, all
    digits are rounded, where what is left of input and mean is small."""
    norm = torch.nn.BatchNorm1d(2, affine=False).eval()
    assert norm.running_mean is not None
    norm.running_mean.copy_(torch.tensor([1.0, -2.0]))
    assert largest_bound(norm, torch.tensor([[1.0 + 2.0**-10, -2.0 + 2.0**-10]])) > 1e-8


@pytest.mark.parametrize("name", OPEN)
def test_what_targets_round_apart_still_is(name: str) -> None:
    assert largest_bound(OPEN[name], 1 + torch.rand(8)) > 0.5


@pytest.mark.parametrize(
    ("values", "unit", "held"),
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
        (torch.tensor([1.0]), 0.0, False),  # before any dtype is known
    ],
)
def test_digits(values: torch.Tensor, unit: float, held: bool) -> None:
    assert is_held("add", (), values, unit) is held


@pytest.mark.parametrize(
    ("name", "args", "held"),
    [
        ("div", (COUNT, 2.0), True),
        ("div", (COUNT, -0.25), True),
        ("div", (COUNT, torch.tensor(4.0)), True),
        ("div", (COUNT, 3.0), False),
        ("div", (COUNT, 0.0), False),
        ("div", (COUNT, COUNT), False),
        ("exp", (COUNT,), False),
    ],
)
def test_operations(name: str, args: tuple[object, ...], held: bool) -> None:
    assert is_held(name, args, torch.ones(3), UNIT) is held
