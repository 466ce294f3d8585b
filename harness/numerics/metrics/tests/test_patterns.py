"""Errors with a pattern are described by it, other errors are not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from harness.numerics.compare import compare_output
from harness.numerics.metrics.error_patterns import LARGEST, describe_pattern
from harness.record.number_text import format_apart

Change = Callable[[torch.Tensor], torch.Tensor]


def _describe(change: Change) -> str:
    torch.manual_seed(0)
    oracle = torch.randn(3, 4, 5, dtype=torch.float64) * 3
    bound = oracle.abs() * 1e-6 + 1e-7
    noise = (torch.rand_like(oracle) - 0.5) * 0.2 * bound
    actual = change(oracle + noise).float()
    return describe_pattern(actual, oracle, bound, oracle.float())


def _at(index: tuple[object, ...], change: Change) -> Change:
    def changed(x: torch.Tensor) -> torch.Tensor:
        found = x.clone()
        found[index] = change(found[index])
        return found

    return changed


NAN = float("nan")
ALL = slice(None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: x * 1.001, "scaled by 1.001"),
        (lambda x: x * 0.5, "scaled by 0.5"),
        (lambda x: x + 0.02, "offset by 0.02"),
        (lambda x: -x, "with the other sign"),
        (lambda x: torch.zeros_like(x), "0 everywhere"),
        (lambda x: x.permute(0, 2, 1).reshape(x.shape), "permuted by (0, 2, 1)"),
        (lambda x: x.flip(1), "backwards along dim 1"),
        (lambda x: x.roll(1, 2), "shifted by +1 along dim 2"),
        (lambda x: x.roll(-2, 2), "shifted by -2 along dim 2"),
        (lambda x: x.bfloat16().double(), "rounded to bfloat16"),
        (lambda x: x.half().double(), "rounded to float16"),
        (lambda x: x.trunc(), "truncated to whole numbers"),
        (_at((ALL, 2), lambda x: x * 1.5), "scaled by 1.5 only at index 2 of dim 1"),
        (_at((1, ALL, 3), lambda x: x + 1), "offset by 1 only at index 1 of dim 0 and 3 of dim 2"),
        (_at((ALL, ALL, 4), torch.randn_like), "wrong only at index 4 of dim 2"),
        (_at((ALL, slice(2, None)), torch.randn_like), "wrong from index 2 of dim 1 on"),
        (_at((slice(2),), lambda x: x * 0), "0 up to index 1 of dim 0"),
        (lambda x: x * NAN, "NaN everywhere"),
        (_at((2, 3), lambda x: x * NAN), "NaN from element 55 on (of 60)"),
        (_at((ALL, 1), lambda x: x / 0), "infinite only at index 1 of dim 1"),
    ],
)
def test_errors_are_described_by_their_pattern(change: Change, words: str) -> None:
    assert words in _describe(change)


@pytest.mark.parametrize(
    "change",
    [
        _at((1, 2, 3), lambda x: x + 1),  # a single element has no pattern
        lambda x: x + torch.randn_like(x) * 0.1,
        lambda x: x.exp(),
        lambda x: x + x.abs() * 3e-6 * torch.randn_like(x).sign(),
    ],
)
def test_an_error_without_a_pattern_is_not_described(change: Change) -> None:
    assert _describe(change) == ""


def test_an_error_just_beyond_its_bound_is_no_factor() -> None:
    oracle = torch.linspace(1, 2, 50, dtype=torch.float64)
    bound = oracle * 1e-6
    off = torch.linspace(-0.3, 1.02, 50, dtype=torch.float64)
    off[::2] *= -1
    found = describe_pattern(oracle + bound * off, oracle, bound, oracle)
    assert found in ("", "wrong from element 48 on")


def test_integers_and_bools() -> None:
    whole = torch.arange(12).reshape(3, 4) ** 2
    none = torch.zeros(3, 4, dtype=torch.float64)
    assert describe_pattern(whole + 1, whole, none, whole) == "offset by 1"
    assert describe_pattern(whole * 3, whole, none, whole) == "scaled by 3"
    flags = whole % 2 == 0
    assert describe_pattern(~flags, flags, none, flags) == "negated"


def test_few_elements_and_very_many_are_left_alone() -> None:
    three = torch.ones(3, dtype=torch.float64)
    assert describe_pattern(three.float() * 2, three, three * 0, three.float()) == ""
    many = torch.ones(1, dtype=torch.float64).expand(LARGEST + 1)
    assert describe_pattern(many.float(), many, many, many.float()) == ""


def test_the_problem_names_the_place_and_the_pattern() -> None:
    oracle = torch.tensor([[1.0, 2.0], [4.0, 8.0]], dtype=torch.float64)
    row = compare_output((oracle * 1.0001).float(), oracle, oracle * 1e-6, oracle.float())
    assert row.pattern == "scaled by 1.0001"
    assert str(row.problem).endswith("at [0, 0] got 1.0001, expected 1, looks scaled by 1.0001")


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        (1.000123, 1.000119, ("1.000123", "1.000119")),
        (0.1, 0.2, ("0.1", "0.2")),
        (0.0, 0.5, ("0", "0.5")),
        (float("nan"), 1.0, ("nan", "1")),
        (2.0, 2.0, ("2", "2")),
    ],
)
def test_digits_that_distinguish_numbers(one: float, other: float, shown: tuple[str, str]) -> None:
    assert format_apart(one, other) == shown


def test_adjacent_numbers_are_printed_differently() -> None:
    assert len(set(format_apart(1.0, 1.0 + 2**-52))) == 2
