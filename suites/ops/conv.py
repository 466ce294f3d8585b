"""Convolutions: one operator, ``aten.convolution``, in one to three dimensions."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch.nn import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    ReLU,
    Sequential,
)

from harness import Case
from suites.build import FLOATS_AND_TOSA, nn_case, op, randn
from suites.selection import take_turns

_F16 = torch.float16


def _channels_last(module: Conv2d) -> Conv2d:
    module.weight.data = module.weight.data.contiguous(memory_format=torch.channels_last)
    return module


class _Twice(torch.nn.Module):
    """Applies one layer to two tensors, as siamese networks do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = Conv1d(3, 5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + self.layer(x * 2 + 1)


class _WeightRead(torch.nn.Module):
    """Returns its scaled weight beside its result."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(2, 2, 2, 2))

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return F.conv2d(x, self.weight), self.weight * scale


class _Tied(torch.nn.Module):
    """Encodes and decodes with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, 4, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(F.conv1d(x, self.weight, padding=1))
        return F.conv_transpose1d(hidden, self.weight, padding=1)


class _Scaled(torch.nn.Module):
    """Applies one layer to two levels, each with its own scale, as detection heads do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = Conv2d(3, 4, 3, padding=1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.layer(x) * 0.5, self.layer(y) * 2.0


class _Halved(torch.nn.Module):
    """Multiplies the result of a convolution by a number."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = Conv2d(3, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(x) * 0.5
        return result


CASES: list[Case] = [
    nn_case("convolution/1d", lambda: Conv1d(3, 5, 3), randn(2, 3, 11)),
    nn_case("convolution/1d_no_bias", lambda: Conv1d(3, 5, 3, bias=False), randn(2, 3, 11)),
    nn_case("convolution/1d_padding", lambda: Conv1d(3, 5, 5, padding=2), randn(2, 3, 11)),
    nn_case("convolution/1d_stride", lambda: Conv1d(3, 5, 3, stride=2), randn(2, 3, 12)),
    nn_case("convolution/1d_dilation", lambda: Conv1d(3, 5, 3, dilation=3), randn(1, 3, 13)),
    nn_case("convolution/1d_depthwise", lambda: Conv1d(6, 6, 3, padding=1, groups=6),
            randn(2, 6, 9)),
    nn_case("convolution/1d_twice", _Twice, randn(2, 3, 11)),
    nn_case("convolution/1d_tied", _Tied, randn(2, 4, 9)),
    nn_case("convolution/1d_unbatched", lambda: Conv1d(3, 5, 3), randn(3, 11)),
    nn_case("convolution/2d_weight_read", _WeightRead, randn(1, 2, 5, 6), randn(2, 1, 1, 1)),
    nn_case("convolution/2d", lambda: Conv2d(3, 8, 3), randn(2, 3, 9, 7)),
    nn_case("convolution/2d_no_bias", lambda: Conv2d(3, 8, 3, bias=False), randn(1, 3, 9, 7)),
    nn_case("convolution/2d_pointwise", lambda: Conv2d(5, 7, 1), randn(2, 5, 4, 6)),
    nn_case("convolution/2d_rectangular_kernel", lambda: Conv2d(3, 4, (3, 5), padding=(1, 2)),
            randn(1, 3, 8, 9)),
    nn_case("convolution/2d_stride_asymmetric", lambda: Conv2d(3, 4, 3, stride=(2, 1)),
            randn(1, 3, 9, 8)),
    nn_case("convolution/2d_stride_beyond_padding",
            lambda: Conv2d(3, 4, 3, stride=(4, 3), padding=1), randn(1, 3, 8, 7)),
    nn_case("convolution/2d_stride_drops_edge", lambda: Conv2d(3, 4, 3, stride=2, padding=1),
            randn(1, 3, 10, 8)),
    nn_case("convolution/2d_padding_asymmetric", lambda: Conv2d(3, 4, 3, padding=(0, 2)),
            randn(1, 3, 6, 5)),
    nn_case("convolution/2d_same_even_kernel", lambda: Conv2d(3, 4, 4, padding="same"),
            randn(1, 3, 6, 7)),
    nn_case("convolution/2d_reflect_padding",
            lambda: Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), randn(1, 3, 6, 7)),
    nn_case("convolution/2d_dilation", lambda: Conv2d(3, 4, 3, dilation=(2, 3)),
            randn(1, 3, 9, 11)),
    nn_case("convolution/2d_depthwise", lambda: Conv2d(6, 6, 3, padding=1, groups=6),
            randn(1, 6, 8, 7)),
    nn_case("convolution/2d_depthwise_multiplier", lambda: Conv2d(4, 12, 3, groups=4),
            randn(1, 4, 8, 7)),
    nn_case("convolution/2d_depthwise_stride", lambda: Conv2d(6, 6, 3, 2, 1, groups=6),
            randn(1, 6, 8, 7)),
    nn_case("convolution/2d_grouped", lambda: Conv2d(6, 9, 3, groups=3), randn(2, 6, 7, 6)),
    nn_case("convolution/2d_one_pixel", lambda: Conv2d(3, 4, 3, padding=1), randn(2, 3, 1, 1)),
    nn_case("convolution/2d_one_channel", lambda: Conv2d(1, 1, 2), randn(1, 1, 5, 4)),
    nn_case("convolution/2d_channels_last", lambda: Conv2d(3, 8, 3, padding=1),
            randn(2, 3, 6, 7).channels_last()),
    nn_case("convolution/2d_channels_last_model",
            lambda: _channels_last(Conv2d(4, 8, 3, stride=2)),
            randn(2, 4, 9, 8).channels_last()),
    nn_case("convolution/2d_channels_last_weight", lambda: _channels_last(Conv2d(4, 8, 3)),
            randn(2, 4, 9, 8)),
    nn_case("convolution/2d_channels_last_depthwise", lambda: Conv2d(6, 6, 3, groups=6),
            randn(1, 6, 7, 8).channels_last()),
    nn_case("convolution/2d_transposed_input", lambda: Conv2d(3, 4, 3),
            randn(1, 3, 8, 6).transposed()),
    nn_case("convolution/2d_unbatched", lambda: Conv2d(3, 4, 3), randn(3, 8, 6)),
    nn_case("convolution/2d_then_relu", lambda: Sequential(Conv2d(3, 6, 3), ReLU()),
            randn(1, 3, 8, 7)),
    nn_case("convolution/2d_chain", lambda: Sequential(Conv2d(3, 6, 3), Conv2d(6, 4, 3, 2)),
            randn(1, 3, 11, 9)),
    nn_case("convolution/2d_fp16", lambda: Conv2d(3, 4, 3).half(), randn(1, 3, 6, 7, dtype=_F16)),
    op("convolution/2d_weight_is_input", torch.conv2d, randn(1, 3, 7, 6), randn(4, 3, 3, 2),
       stride=(1, 2)),
    nn_case("convolution/3d", lambda: Conv3d(2, 3, 3), randn(1, 2, 5, 6, 4)),
    nn_case("convolution/3d_stride_padding", lambda: Conv3d(2, 3, 3, (1, 2, 1), (1, 0, 1)),
            randn(1, 2, 4, 7, 5)),
    nn_case("convolution/transposed_1d", lambda: ConvTranspose1d(3, 4, 3, stride=2),
            randn(2, 3, 6)),
    nn_case("convolution/transposed_2d", lambda: ConvTranspose2d(3, 4, 3), randn(1, 3, 5, 6)),
    nn_case("convolution/transposed_2d_stride", lambda: ConvTranspose2d(3, 4, 3, 2, 1),
            randn(1, 3, 5, 4)),
    nn_case("convolution/transposed_2d_output_padding",
            lambda: ConvTranspose2d(3, 4, 3, 2, 1, output_padding=1), randn(1, 3, 5, 4)),
    nn_case("convolution/transposed_2d_no_bias", lambda: ConvTranspose2d(3, 4, (2, 3), bias=False),
            randn(2, 3, 4, 5)),
    nn_case("convolution/transposed_2d_grouped", lambda: ConvTranspose2d(4, 6, 3, groups=2),
            randn(1, 4, 5, 4)),
    nn_case("convolution/transposed_2d_dilation", lambda: ConvTranspose2d(3, 4, 3, dilation=2),
            randn(1, 3, 5, 4)),
    nn_case("convolution/transposed_2d_channels_last", lambda: ConvTranspose2d(3, 4, 3, 2),
            randn(1, 3, 5, 4).channels_last()),
    nn_case("convolution/transposed_3d", lambda: ConvTranspose3d(2, 3, 2, stride=2),
            randn(1, 2, 3, 4, 2)),
    # int_conv2d/one_layer_twice shows that XNNPACK cannot quantize such a layer.
    replace(nn_case("convolution/2d_two_scales", _Scaled, randn(1, 3, 6, 7), randn(1, 3, 3, 4)),
            targets=FLOATS_AND_TOSA),
    # convolution/2d_unbatched shows that others take no image without a batch.
    replace(nn_case("convolution/2d_unbatched_halved", _Halved, randn(3, 8, 7)),
            targets="tosa:fp|tosa:int"),
]

CASES = take_turns(CASES)
