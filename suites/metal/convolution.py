"""Convolutions: groups, depth-wise layers, the subsampling of speech encoders, layouts.

The runtime's kernel requires contiguous operands in one or two dimensions. A transposed view must
not reach it, and its result is contiguous even if the generated code expects another layout.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch.nn import BatchNorm1d, BatchNorm2d, Conv1d, Conv2d, ConvTranspose2d, ReLU, Sequential

from harness import Case
from suites.build import Input, nn_case, op, randn
from suites.metal.only import on_metal

Function = Callable[[torch.Tensor], torch.Tensor]


class Around(torch.nn.Module):
    """A convolution between two functions."""

    def __init__(self, layer: torch.nn.Module, before: Function, after: Function) -> None:
        super().__init__()
        self.layer, self.before, self.after = layer, before, after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.after(self.layer(self.before(x)))


def _same(x: torch.Tensor) -> torch.Tensor:
    return x


def _around(
    name: str,
    layer: Callable[[], torch.nn.Module],
    x: Input,
    before: Function = _same,
    after: Function = _same,
) -> Case:
    return nn_case(f"convolution/{name}", lambda: Around(layer(), before, after), x)


def subsampling(channels: int, bias: bool = True) -> torch.nn.Module:
    """Make layers that reduce frames by four: a strided, a depth-wise and a pointwise one."""
    return Sequential(
        Conv2d(1, channels, 3, 2, 1, bias=bias), ReLU(),
        Conv2d(channels, channels, 3, 2, 1, groups=channels, bias=bias),
        Conv2d(channels, channels, 1, bias=bias), ReLU(),
    )  # fmt: skip


class Subsampled(torch.nn.Module):
    """Subsampling and the projection of its channels, as speech encoders begin."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = subsampling(6)
        self.linear = torch.nn.Linear(6 * 4, 10)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        x = self.layers(features.unsqueeze(1))
        result: torch.Tensor = self.linear(x.transpose(1, 2).flatten(2))
        return result


class Conformer(torch.nn.Module):
    """The convolution module of a conformer: pointwise, gate, depth-wise, norm, pointwise."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.pointwise1 = Conv1d(channels, 2 * channels, 1)
        self.depthwise = Conv1d(channels, channels, 5, padding=2, groups=channels)
        self.norm = BatchNorm1d(channels)
        self.pointwise2 = Conv1d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gated = torch.nn.functional.glu(self.pointwise1(x.transpose(1, 2)), 1)
        inner = torch.nn.functional.silu(self.norm(self.depthwise(gated)))
        result: torch.Tensor = self.pointwise2(inner).transpose(1, 2)
        return result


def _swapped(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(-1, -2)


def _last(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous(memory_format=torch.channels_last)


GROUPS = [
    _around("encoder_1d_grouped", lambda: Conv1d(6, 9, 3, groups=3), randn(2, 6, 9)),
    _around("encoder_1d_grouped_no_bias", lambda: Conv1d(6, 9, 3, groups=3, bias=False),
            randn(2, 6, 9)),
    _around("encoder_1d_depthwise_no_bias", lambda: Conv1d(6, 6, 5, padding=2, groups=6,
            bias=False), randn(1, 6, 9)),
    _around("encoder_1d_depthwise_stride", lambda: Conv1d(6, 6, 5, 2, 2, groups=6), randn(1, 6, 9)),
    _around("encoder_1d_depthwise_multiplier", lambda: Conv1d(4, 12, 3, groups=4), randn(2, 4, 9)),
    _around("encoder_1d_pointwise", lambda: Conv1d(6, 12, 1), randn(1, 6, 9)),
    _around("encoder_2d_grouped_no_bias", lambda: Conv2d(6, 9, 3, groups=3, bias=False),
            randn(2, 6, 7, 6)),
    _around("encoder_2d_depthwise_dilated",
            lambda: Conv2d(6, 6, 3, padding=2, dilation=2, groups=6), randn(1, 6, 8, 7)),
    _around("encoder_2d_depthwise_unbatched", lambda: Conv2d(6, 6, 3, groups=6), randn(6, 8, 7)),
    _around("encoder_1d_depthwise_unbatched", lambda: Conv1d(6, 6, 3, groups=6), randn(6, 9)),
    nn_case("convolution/same_sizes_with_bias_and_without",
            lambda: Sequential(Conv2d(4, 4, 3, padding=1, bias=False), ReLU(),
                               Conv2d(4, 4, 3, padding=1)), randn(1, 4, 6, 5)),
    _around("two_output_paddings",
            lambda: Sequential(ConvTranspose2d(3, 3, 3, 2), ReLU(), Conv2d(3, 3, 3)),
            randn(1, 3, 4, 5)),
]  # fmt: skip

ENCODER = [
    nn_case("convolution/subsampling", partial(subsampling, 6), randn(1, 1, 24, 16)),
    nn_case("convolution/subsampling_batch_2", partial(subsampling, 6), randn(2, 1, 24, 16)),
    nn_case("convolution/subsampling_no_bias", partial(subsampling, 6, False), randn(1, 1, 24, 16)),
    nn_case("convolution/subsampling_odd_length", partial(subsampling, 5), randn(1, 1, 23, 15)),
    nn_case("convolution/subsampling_projected", Subsampled, randn(1, 24, 16)),
    nn_case("convolution/conformer_module", partial(Conformer, 8), randn(1, 9, 8)),
    nn_case("convolution/conformer_module_batch_2", partial(Conformer, 8), randn(2, 9, 8)),
    nn_case("convolution/batch_norm_relu",
            lambda: Sequential(Conv2d(3, 6, 3, bias=False), BatchNorm2d(6), ReLU()),
            randn(1, 3, 8, 7)),
]  # fmt: skip

LAYOUTS = [
    _around("1d_time_last", lambda: Conv1d(6, 4, 3), randn(2, 9, 6), _swapped),
    _around("1d_time_last_depthwise", lambda: Conv1d(6, 6, 3, groups=6), randn(2, 9, 6), _swapped),
    _around("1d_time_last_both_ways", lambda: Conv1d(6, 4, 3), randn(2, 9, 6), _swapped, _swapped),
    _around("1d_after_kernel_time_last", lambda: Conv1d(6, 4, 3), randn(2, 9, 6),
            lambda x: torch.tanh(x).transpose(1, 2)),
    _around("2d_transposed_image", lambda: Conv2d(3, 4, 3), randn(1, 3, 6, 8), _swapped),
    _around("2d_transposed_image_after_kernel", lambda: Conv2d(3, 4, 3), randn(1, 3, 6, 8),
            lambda x: torch.tanh(x).transpose(2, 3)),
    _around("2d_channels_moved", lambda: Conv2d(3, 4, 3), randn(1, 8, 6, 3),
            lambda x: x.permute(0, 3, 1, 2)),
    _around("2d_channels_last_inside", lambda: Conv2d(3, 4, 3), randn(1, 3, 8, 6), _last),
    _around("2d_channels_last_after_kernel", lambda: Conv2d(3, 4, 3), randn(1, 3, 8, 6),
            lambda x: _last(torch.tanh(x))),
    _around("2d_result_channels_last", lambda: Conv2d(3, 4, 3), randn(1, 3, 8, 6), _same, _last),
    _around("2d_many_channels", lambda: Conv2d(16, 32, 3, padding=1), randn(2, 16, 8, 8)),
    _around("2d_many_channels_chain",
            lambda: Sequential(Conv2d(16, 32, 3, padding=1), ReLU(), Conv2d(32, 16, 3, padding=1)),
            randn(1, 16, 8, 8)),
    _around("2d_channels_last_1_pixel", lambda: Conv2d(6, 4, 1),
            randn(2, 6, 1, 1).channels_last()),
    _around("2d_channels_last_1_channel", lambda: Conv2d(1, 4, 3),
            randn(2, 1, 6, 7).channels_last()),
    _around("2d_channels_last_many", lambda: Conv2d(16, 32, 3, padding=1),
            randn(1, 16, 8, 8).channels_last()),
    _around("2d_channels_last_grouped", lambda: Conv2d(6, 4, 3, groups=2),
            randn(1, 6, 6, 7).channels_last()),
    op("convolution/2d_weight_transposed", lambda x, w: torch.conv2d(x, w.transpose(2, 3)),
       randn(1, 3, 7, 6), randn(4, 3, 3, 2)),
    op("convolution/1d_weight_computed", lambda x, w: torch.conv1d(x, torch.tanh(w)),
       randn(1, 3, 9), randn(4, 3, 3)),
]  # fmt: skip

CASES: list[Case] = on_metal(*GROUPS, *ENCODER, *LAYOUTS)
