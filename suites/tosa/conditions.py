"""Programs that decide conditions of Arm's support checks and passes.

Written for mistakes in these conditions that no other cell noticed (docs/mutation.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import ConvTranspose2d

from harness import Case
from suites.build import bools, distinct, ints, nn_case, op, randn, uniform


class _Lstm(torch.nn.Module):
    """An LSTM that begins with given states."""

    def __init__(self, layers: int, directions: int) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 3, layers, bidirectional=directions == 2)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        outputs, (hidden, cell) = self.lstm(x, (h, c))
        return outputs, hidden, cell


def _lstm(name: str, layers: int, directions: int) -> Case:
    states = randn(layers * directions, 2, 3)
    return nn_case(f"lstm/{name}", lambda: _Lstm(layers, directions), randn(5, 2, 4), states,
                   states)  # fmt: skip


def _native_norm(x: Tensor) -> Tensor:
    result: Tensor = torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)[0]
    return result * 2.0


def _resized(mode: str, **size: Any) -> Callable[[Tensor], Tensor]:
    return lambda x: F.interpolate(x, mode=mode, **size) + 0.5


_CASES = [
    op("clamp/bool_bound", lambda x: torch.clamp(x, max=True), randn(3, 5)),
    op("index_select/vector_int32",
       lambda x, i: x.index_select(0, i) * 2.0, distinct(6), ints(0, 6, 3, dtype=torch.int32)),
    op("index_select/vector", lambda x: x.index_select(0, torch.tensor([4, 0, 2])) * 2.0,
       distinct(6)),
    op("masked_fill/infinite", lambda x, m: x.masked_fill(m, math.inf).clamp(-1.0, 1.5),
       randn(3, 5), bools(3, 5)),
    op("masked_fill/largest",
       lambda x, m: x.masked_fill(m, torch.finfo(torch.float32).max).clamp(-1.0, 1.5),
       randn(3, 5), bools(3, 5)),
    op("max_pool2d_with_indices/dilated_to_one", lambda x: F.max_pool2d(x, 2, 2, dilation=2),
       distinct(1, 3, 4, 4)),
    op("max_pool2d_with_indices/dilated_with_stride",
       lambda x: F.max_pool2d(x, 2, 2, dilation=2), distinct(1, 2, 7, 6)),
    op("permute_copy/rank7_singletons", lambda x: x.permute(0, 3, 1, 5, 2, 6, 4) * 2.0,
       randn(1, 2, 1, 3, 1, 4, 2)),
    op("permute_copy/rank6_singletons", lambda x: x.permute(0, 5, 1, 3, 2, 4) * 2.0,
       randn(1, 2, 1, 3, 1, 4)),
    op("slice_copy/slices_of_slices", lambda x: (x + x)[:, 1:5][:, :, 1:3][:, 1:, :1] * 3.0,
       randn(2, 6, 4)),
    op("slice_copy/steps_of_slices", lambda x: (x + x)[:, 1::2][:, :, 1:3] * 3.0, randn(2, 6, 4)),
    op("native_batch_norm/no_stats_tuple", _native_norm, randn(2, 3, 4, 5)),
    op("upsample_bilinear2d/to_a_sixteenth", _resized("bilinear", scale_factor=1 / 16),
       randn(1, 2, 32, 16)),
    op("upsample_bilinear2d/times_seventeen", _resized("bilinear", scale_factor=17),
       randn(1, 1, 2, 3)),
    # A scale is a fraction of twice the sizes; its numerator may be 2048.
    op("upsample_bilinear2d/beyond_the_largest_numerator", _resized("bilinear", size=(1030, 2)),
       randn(1, 1, 3, 2)),
    op("upsample_nearest2d/large_numbers", _resized("nearest", size=(41, 5)),
       randn(1, 1, 40, 4)),
    op("upsample_nearest2d/large_numbers_in_rows", _resized("nearest", size=(5, 41)),
       randn(1, 1, 4, 40)),
    op("upsample_bilinear2d/uneven", _resized("bilinear", size=(7, 3)), randn(1, 2, 3, 5)),
    op("upsample_nearest2d/to_a_sixteenth", _resized("nearest", scale_factor=1 / 16),
       randn(1, 2, 32, 16)),
    op("as_strided_copy/offset", lambda x: x.as_strided((2, 3), (3, 1), 1) * 2.0, distinct(8)),
    op("argmax/positions_of_floats", lambda x: x.argmax(1).to(torch.int32), distinct(3, 4)),
    op("index/of_rows_and_columns",
       lambda x: x[torch.tensor([[0], [2]]), torch.tensor([[1, 3]])] * 2.0, distinct(3, 4)),
    op("sign/of_differences", lambda x: torch.sign(x - x.mean(1, keepdim=True)) * 3.0,
       uniform(-2, 2, 4, 5)),
    nn_case("convolution/transposed_remainder",
            lambda: ConvTranspose2d(2, 3, 3, stride=2, padding=1), randn(1, 2, 4, 5)),
    nn_case("convolution/transposed_stride_3",
            lambda: ConvTranspose2d(2, 3, 2, stride=3), randn(1, 2, 4, 5)),
    nn_case("convolution/transposed_padding_of_kernel",
            lambda: ConvTranspose2d(2, 3, (1, 3), stride=(3, 1), padding=(1, 0)),
            randn(1, 2, 4, 5)),
    nn_case("convolution/transposed_padding_of_width",
            lambda: ConvTranspose2d(2, 3, (3, 1), stride=(1, 3), padding=(0, 1)),
            randn(1, 2, 4, 5)),
    nn_case("convolution/transposed_padding_of_one_dim",
            lambda: ConvTranspose2d(2, 3, (2, 5), padding=(1, 2)), randn(1, 2, 4, 5)),
    _lstm("given_states", 1, 1),
    _lstm("given_states_of_layers", 2, 1),
    _lstm("given_states_both_ways", 1, 2),
]  # fmt: skip

CASES: list[Case] = [
    replace(
        case,
        # The value that is filled in decides the range of a quantized tensor.
        targets="tosa:fp" if case.op == "masked_fill" else "tosa:fp|tosa:int",
        # An LSTM takes 10 s on an integer target; suites.quant.joined has one in a plain run.
        plain_targets="tosa:fp",
        tags=case.tags | {"conditions"},
    )
    for case in _CASES
]
# The passes of the quantizer replace infinities before anything is observed.
CASES += [
    replace(case, targets="tosa:int", plain_targets="tosa:int", tags=case.tags | {"conditions"})
    for case in (
        op("masked_fill/to_infinity", lambda x, m: x.masked_fill(m, math.inf), randn(3, 5),
           bools(3, 5)),
        op("masked_fill/to_the_largest_number",
           lambda x, m: x.masked_fill(m, torch.finfo(torch.float32).max), randn(3, 5), bools(3, 5)),
    )
]  # fmt: skip
