"""Grids that a quantizer with dynamic scales chooses are those of PT2E's own operators."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers the operators)

from harness.pipeline.quantization.grid import Grid, choose_grid

EPS = torch.finfo(torch.float32).eps


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("offset", [0.0, 3.0, -40.0])
@pytest.mark.parametrize("symmetric", [False, True])
def test_a_dynamic_grid_is_chosen_in_the_dtype_of_the_tensor(
    dtype: torch.dtype, offset: float, symmetric: bool
) -> None:
    low, high = (-127, 127) if symmetric else (-128, 127)
    scheme = "symmetric" if symmetric else "affine"
    observer = SimpleNamespace(
        is_dynamic=True, quant_min=low, quant_max=high, qscheme=f"torch.per_tensor_{scheme}"
    )
    operators = torch.ops.quantized_decomposed
    choose = operators.choose_qparams_symmetric if symmetric else operators.choose_qparams
    for seed in range(20):
        torch.manual_seed(seed)
        values = (torch.randn(3, 5) * 10 ** (seed / 5 - 2) + offset).to(dtype)
        scale, zero_point = choose.tensor(values, low, high, EPS, torch.int8)
        grid = choose_grid(observer, values)
        assert grid is not None
        assert float(grid.scale) == float(scale)
        assert int(grid.zero_point) == int(zero_point)


def test_one_scale_for_all_channels_rounds_as_pt2e_does() -> None:
    """A bias whose scale derives from per-tensor grids has such a grid."""
    scale, zero_point = torch.tensor([0.1]), torch.tensor([0])
    grid = Grid(scale, zero_point, -128, 127, axis=0)
    values = torch.linspace(-1, 1, 6)
    assert grid.fits(values)
    codes = torch.ops.quantized_decomposed.quantize_per_channel(
        values, scale, zero_point, 0, -128, 127, torch.int8
    )
    assert torch.equal(grid.quantize(values), codes * scale)
    assert not Grid(torch.ones(2), torch.zeros(2), -128, 127, axis=0).fits(values)
