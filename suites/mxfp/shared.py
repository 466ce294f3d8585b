"""The same weights on two backends, which the report compares side by side.

Both targets have E4M3 codes in blocks of 32, with two differences. Arm divides by the smallest
power of two that keeps a block within 448 (torchao's ``RCEIL``); MLX divides by two to the exponent
of the largest magnitude less 8 (``FLOOR``), which saturates blocks whose largest magnitude has a
significand above 1.75. Arm encodes the activations; MLX leaves them in float32.
"""

from __future__ import annotations

import torch

from harness import CROSS_BACKEND, Case
from suites.build import Input, ints, nn_case, randn
from suites.mlx.quantized import Gated
from suites.mxfp.build import Edit, edited, on, outlier, uneven_blocks, zero_block

_BOTH = "tosa:mxfp8_e4m3|mlx:mxfp8"
# Whole numbers up to 7 are E4M3 codes for any scale of the block.
_EXACT = ints(-7, 8, 3, 64, dtype=torch.float32)


def whole(weight: torch.Tensor) -> None:
    """Whole numbers up to 7, at least one 7 a block: both backends encode them without loss."""
    weight.copy_(torch.randint(-7, 8, weight.shape))
    weight[..., ::32] = 7


def agreeing(weight: torch.Tensor) -> None:
    """The largest magnitude of each block is 1.75 times a power of two: both use one scale."""
    weight.clamp_(-0.1, 0.1)
    weight[..., ::32] = 7 / 64


def saturating(weight: torch.Tensor) -> None:
    """The largest magnitude of each block is 1.9 times a power of two: scales differ."""
    weight.clamp_(-0.1, 0.1)
    weight[..., ::32] = 1.9 / 16


def _case(name: str, edit: Edit, inputs: Input, bias: bool = False) -> Case:
    def layer() -> torch.nn.Module:
        return edited(torch.nn.Linear(64, 16, bias=bias), edit)

    return nn_case(f"mxfp_shared/{name}", layer, inputs, tags=["weights", CROSS_BACKEND])


def _as_drawn(weight: torch.Tensor) -> None:
    """Uniform weights, as a new layer has them."""


CASES: list[Case] = on(
    _BOTH,
    _case("exact", whole, _EXACT),
    _case("same_scales", agreeing, randn(3, 64), bias=True),
    _case("same_scales_exact_activations", agreeing, _EXACT),
    _case("scales_one_apart", saturating, randn(3, 64)),
    _case("as_drawn", _as_drawn, randn(3, 64), bias=True),
    _case("outlier", outlier, randn(3, 64)),
    _case("zero_block", zero_block, randn(3, 64)),
    _case("uneven_blocks", uneven_blocks, randn(3, 64)),
    nn_case(
        "mxfp_shared/mlp",
        lambda: Gated(32, 64),
        randn(2, 32),
        tags=["weights", CROSS_BACKEND],
    ),
)
