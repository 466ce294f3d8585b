"""2-d convolutions; a block is 32 input channels at one position of the kernel.

Only Arm has a block-scaled convolution. It supports no groups, no named paddings, no padding with
values other than zero, and no channels that are not a multiple of 32; these cells are unsupported.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from harness import Case
from suites.build import Input, nn_case, randn, zeros
from suites.mxfp.build import ARM, SOME_ARM, edited, on, outlier, scaled, zero_block
from suites.selection import take_one_of

_IMAGE = randn(1, 32, 4, 5)


def _conv(name: str, inputs: Input = _IMAGE, rows: int = 8, size: Any = 3, **options: Any) -> Case:
    layer = partial(torch.nn.Conv2d, inputs.shape[1], rows, size, **options)
    return nn_case(f"mxfp_conv2d/{name}", layer, inputs, tags=["weights"])


def _weights(name: str, edit: Callable[[torch.Tensor], object]) -> Case:
    def layer() -> torch.nn.Module:
        return edited(torch.nn.Conv2d(64, 8, 2), edit)

    return nn_case(f"mxfp_conv2d/weights_{name}", layer, randn(1, 64, 3, 3), tags=["weights"])


def _bfloat16() -> torch.nn.Module:
    return torch.nn.Conv2d(32, 8, 3).to(torch.bfloat16)


_ALL_FORMATS = [
    _conv("bias"),
    _conv("no_bias", bias=False),
    _conv("three_blocks", randn(1, 96, 3, 3)),
    _weights("outlier", outlier),
    _weights("tiny", scaled(1e-20)),
]
_SOME_FORMATS = [
    _conv("pointwise", size=1),
    _conv("batch", randn(3, 32, 3, 3), size=2),
    _conv("one_feature", rows=1),
    _conv("stride", randn(1, 32, 5, 5), stride=2, bias=False),
    _conv("stride_uneven", stride=(1, 2)),
    # The last position of the kernel does not reach the image's border.
    _conv("stride_remainder", stride=2),
    _conv("padding", padding=1),
    _conv("padding_uneven", padding=(0, 2), bias=False),
    _conv("dilation", dilation=(1, 2)),
    _conv("kernel_uneven", size=(1, 4)),
    _conv("stride_padding_dilation", randn(1, 32, 3, 5), 8, 2, stride=2, padding=1, dilation=2),
    _conv("channels_last", randn(2, 32, 4, 4).channels_last()),
    _conv("activations_zero", zeros(1, 32, 3, 3)),
    _weights("zero_block", zero_block),
    nn_case("mxfp_conv2d/bf16", _bfloat16, randn(1, 32, 4, 4, dtype=torch.bfloat16)),
    _conv("groups", randn(1, 64, 3, 3), groups=2),
    _conv("depthwise", rows=32, groups=32),
    _conv("not_divisible", randn(1, 40, 3, 3)),
    _conv("padding_same", padding="same"),
    _conv("padding_circular", padding=1, padding_mode="circular"),
]

CASES: list[Case] = take_one_of(2, [*on(ARM, *_ALL_FORMATS), *on(SOME_ARM, *_SOME_FORMATS)])
