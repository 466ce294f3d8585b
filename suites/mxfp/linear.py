"""Linear layers: ranks, batches, widths, layouts, dtypes, weights and activations of all sizes.

A block is 32 adjacent elements of a row (16 in nvfp4). Arm's targets encode activations, too, so
inputs matter as much as weights.
"""

from __future__ import annotations

import math
from functools import partial

import torch

from harness import Case
from suites.build import Input, add_vacuous_reasons, nn_case, randn, values, zeros
from suites.mxfp.build import (
    ALL,
    MX,
    SOME,
    SOME_ARM,
    Edit,
    edited,
    fill,
    on,
    outlier,
    scaled,
    ties,
    uneven_blocks,
    zero_block,
)
from suites.selection import take_one_of

_BFLOAT16 = torch.bfloat16


def _linear(name: str, columns: int, rows: int, *shape: int, bias: bool = False) -> Case:
    layer = partial(torch.nn.Linear, columns, rows, bias=bias)
    return nn_case(f"mxfp_linear/{name}", layer, randn(*shape, columns), tags=["weights"])


def _bfloat16(name: str, bias: bool, *shape: int) -> Case:
    def layer() -> torch.nn.Module:
        return torch.nn.Linear(64, 16, bias=bias).to(_BFLOAT16)

    inputs = randn(*shape, 64, dtype=_BFLOAT16)
    return nn_case(f"mxfp_linear/{name}", layer, inputs, tags=["weights"])


def _weights(name: str, edit: Edit) -> Case:
    def layer() -> torch.nn.Module:
        return edited(torch.nn.Linear(64, 16, bias=False), edit)

    return nn_case(f"mxfp_linear/weights_{name}", layer, randn(3, 64), tags=["weights"])


def _activations(name: str, inputs: Input) -> Case:
    layer = partial(torch.nn.Linear, inputs.shape[-1], 16)
    return nn_case(f"mxfp_linear/activations_{name}", layer, inputs, tags=["weights"])


def _blocks(size: tuple[int, ...]) -> torch.Tensor:
    magnitudes = torch.tensor([1e-3, 100.0]).repeat_interleave(32)
    return torch.randn(size) * magnitudes


def _zero_block(size: tuple[int, ...]) -> torch.Tensor:
    drawn = torch.randn(size)
    drawn[..., :32] = 0
    return drawn


def _times(factor: float) -> Input:
    return Input((3, 64), lambda size: torch.randn(size) * factor)


def _with(item: float) -> Input:
    """One infinity or NaN in the first block of the first row, the rest normal."""

    def draw(size: tuple[int, ...]) -> torch.Tensor:
        drawn = torch.randn(size)
        drawn[0, 3] = item
        return drawn

    return Input((3, 64), draw, extremes=(item,))


CASES: list[Case] = [
    *on(
        ALL,
        _linear("rank1", 64, 16),
        _linear("rank2_bias", 64, 16, 3, bias=True),
        _linear("rank3_bias", 64, 16, 2, 3, bias=True),
        _linear("rank4", 64, 16, 2, 3, 2),
        _linear("three_blocks", 96, 16, 3),
        _bfloat16("bf16_rank2_bias", True, 3),
        _weights("outlier", outlier),
        _weights("zero_block", zero_block),
    ),
    *on(
        MX,
        _linear("ten_blocks", 320, 16, 3, bias=True),
        _weights("zero", fill(0.0)),
        _weights("tiny", scaled(1e-20)),
        _weights("subnormal", scaled(1e-39)),
        _weights("huge", scaled(1e30)),
        _weights("uneven_blocks", uneven_blocks),
        _weights("ties", ties),
        _activations("zero", zeros(3, 64)),
        _activations("zero_block", Input((3, 64), _zero_block)),
        _activations("uneven_blocks", Input((3, 64), _blocks)),
        _activations("ties", values([i / 2 for i in range(-14, 15)], 3, 64)),
        _activations("tiny", _times(1e-20)),
        _activations("subnormal", _times(1e-39)),
        _activations("huge", _times(1e30)),
        _activations("inf", _with(math.inf)),
        _activations("nan", _with(math.nan)),
    ),
    *on(
        SOME,
        _linear("rank1_bias", 64, 16, bias=True),
        _linear("rank2", 64, 16, 3),
        _linear("rank4_bias", 32, 16, 2, 3, 2, bias=True),
        _linear("batch_1", 64, 16, 1),
        _linear("batch_33", 64, 16, 33, bias=True),
        _linear("one_block", 32, 16, 3, bias=True),
        _linear("one_feature", 64, 1, 3, bias=True),
        _linear("odd_features", 64, 17, 3, bias=True),
        _linear("many_features", 32, 130, 2),
        _bfloat16("bf16_rank3", False, 2, 3),
        # 40 is not a multiple of the block size: the cell is unsupported.
        _linear("not_divisible", 40, 16, 3),
    ),
    *on(
        SOME_ARM,
        nn_case(
            "mxfp_linear/channels_last",
            partial(torch.nn.Linear, 64, 16),
            randn(2, 3, 2, 64).channels_last(),
            tags=["weights"],
        ),
        nn_case(
            "mxfp_linear/transposed",
            partial(torch.nn.Linear, 32, 16),
            randn(5, 32).transposed(),
            tags=["weights"],
        ),
    ),
]
CASES = take_one_of(3, CASES)

CASES = add_vacuous_reasons(
    CASES,
    {
        "mxfp_linear/bf16_rank2_bias": "a bfloat16 sum may err by as much as the values differ",
        "mxfp_linear/bf16_rank3": "a bfloat16 sum may err by as much as the values differ",
        "mxfp_linear/weights_subnormal": "weights that the format holds as zeros",
        "mxfp_linear/weights_zero": "weights that the format holds as zeros",
    },
)
