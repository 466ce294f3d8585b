"""Values in the range of a dtype: the quick test of all agrees with the element-wise one."""

from __future__ import annotations

import pytest
import torch

from harness.numerics.error_model.ranges import DtypeRange

SPECIAL = [0.0, -0.0, 1.0, -3e38, 1e-39, -1e-37, 4e38, torch.inf, -torch.inf, torch.nan]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("first", SPECIAL)
def test_a_value_is_held_as_each_of_its_elements_is(first: float, dtype: torch.dtype) -> None:
    finfo = torch.finfo(dtype)
    least = finfo.tiny if dtype != torch.float16 else finfo.tiny * finfo.eps / 2
    for second in SPECIAL:
        value = torch.tensor([first, second, 0.5], dtype=torch.float64)
        to_range = DtypeRange()
        to_range.narrow_to(dtype)
        size = value.abs()
        over, under = (size > finfo.max) & size.isfinite(), (size < least) & (size > 0)
        expected = torch.where(over, value.sign() * torch.inf, torch.where(under, 0.0, value))
        torch.testing.assert_close(to_range(value), expected, equal_nan=True, rtol=0, atol=0)
        assert to_range.was_exceeded is bool((over | under).any())


def test_nothing_is_held() -> None:
    to_range = DtypeRange()
    to_range.narrow_to(torch.float16)
    assert to_range(torch.empty(0, 3, dtype=torch.float64)).shape == (0, 3)
    assert not to_range.was_exceeded
