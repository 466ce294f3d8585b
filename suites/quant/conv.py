"""Convolutions on the integer recipes; XNNPACK quantizes those of one and two dimensions."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import (
    BatchNorm2d,
    Conv1d,
    Conv2d,
    ConvTranspose1d,
    ConvTranspose2d,
    Hardtanh,
    Module,
    ReLU,
    ReLU6,
    Sequential,
    ZeroPad2d,
)

from harness import Case
from suites.build import Input, nn_case, randn, uniform
from suites.quant.only import ALL, STATIC, WITHOUT_PER_TENSOR, in_turns, on, spread


def _1d(name: str, layer: Callable[[], Module], x: Input) -> Case:
    return nn_case(f"int_conv1d/{name}", layer, x)


def _2d(name: str, layer: Callable[[], Module], x: Input) -> Case:
    return nn_case(f"int_conv2d/{name}", layer, x)


def _uneven(layer: Conv2d) -> Conv2d:
    with torch.no_grad():
        layer.weight *= torch.logspace(-2, 1, len(layer.weight)).reshape(-1, 1, 1, 1)
    return layer


def _with_zeros(layer: Conv2d) -> Conv2d:
    with torch.no_grad():
        layer.weight[1] = 0.0
        layer.bias[1] = 2.0  # type: ignore[index]
    return layer


def _normalised(relu: bool, groups: int = 1) -> Sequential:
    norm = BatchNorm2d(4)
    with torch.no_grad():
        norm.running_mean.uniform_(-1, 1)  # type: ignore[union-attr]
        norm.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
        norm.weight.uniform_(-2, 2)
        norm.bias.uniform_(-1, 1)
    layers = [Conv2d(4, 4, 3, groups=groups), norm]
    return Sequential(*layers, ReLU()) if relu else Sequential(*layers)


_CASES: list[Case] = [
    *on(
        ALL,
        _2d("bias", lambda: Conv2d(3, 4, 3), randn(1, 3, 5, 6)),
        _2d("batch", lambda: Conv2d(3, 4, 3), spread(3, 3, 5, 5, dim=0)),
        _2d("no_bias", lambda: Conv2d(3, 4, 3, bias=False), randn(1, 3, 5, 6)),
        _2d("pointwise", lambda: Conv2d(5, 7, 1), randn(2, 5, 3, 4)),
        _2d("rectangular_kernel", lambda: Conv2d(3, 4, (2, 3)), randn(1, 3, 5, 6)),
        _2d("stride", lambda: Conv2d(3, 4, 3, stride=(2, 1)), randn(1, 3, 7, 5)),
        _2d("padding", lambda: Conv2d(3, 4, 3, padding=(0, 2)), randn(1, 3, 5, 4)),
        # Padding is zero, whose code differs in each of these ranges.
        _2d("padding_of_positive_values", lambda: Conv2d(3, 4, 3, padding=1),
            uniform(0, 1, 1, 3, 4, 4)),
        _2d("padding_of_negative_values", lambda: Conv2d(3, 4, 3, padding=1),
            uniform(-6, -5, 1, 3, 4, 4)),
        _2d("padded_before", lambda: Sequential(ZeroPad2d((1, 0, 2, 1)), Conv2d(3, 4, 3)),
            uniform(0.5, 1, 1, 3, 4, 4)),
        _2d("dilation", lambda: Conv2d(3, 4, 3, dilation=2), randn(1, 3, 7, 6)),
        _2d("grouped", lambda: Conv2d(4, 6, 3, groups=2), randn(1, 4, 5, 5)),
        # Of a network that was trained with batch normalization.
        _2d("channel_of_zeros", lambda: _with_zeros(Conv2d(3, 4, 3)),
            uniform(-0.2, 0.2, 1, 3, 5, 5)),
        _2d("uneven_channels", lambda: _uneven(Conv2d(3, 4, 3)), randn(1, 3, 5, 5)),
        # Unsupported with dynamic quantization: XNNPACKQuantizer skips a convolution before a relu
        # in favour of a pattern that only static quantization has.
        _2d("relu", lambda: Sequential(Conv2d(3, 4, 3), ReLU()), randn(1, 3, 5, 5)),
        _2d("relu6", lambda: Sequential(Conv2d(3, 4, 3), ReLU6()),
            uniform(-8, 8, 1, 3, 5, 5)),
        _2d("hardtanh", lambda: Sequential(Conv2d(3, 4, 3), Hardtanh(-0.3, 0.4)),
            randn(1, 3, 5, 5)),
        _2d("channels_last", lambda: Conv2d(3, 4, 3), randn(1, 3, 5, 6).channels_last()),
        _2d("batch_norm", lambda: _normalised(relu=False), randn(1, 4, 5, 5)),
        _2d("twice", lambda: Sequential(Conv2d(3, 4, 3), Conv2d(4, 2, 2)), randn(1, 3, 5, 5)),
        _2d("transposed", lambda: ConvTranspose2d(3, 4, 3), randn(1, 3, 4, 3)),
        _2d("transposed_stride", lambda: ConvTranspose2d(3, 4, 3, 2, 1, 1), randn(1, 3, 3, 3)),
    ),
    *on(
        STATIC,
        _2d("same_even_kernel_relu",
            lambda: Sequential(Conv2d(1, 3, (4, 1), padding="same"), ReLU()), randn(1, 1, 8, 3)),
        _2d("batch_norm_relu", lambda: _normalised(relu=True), randn(1, 4, 5, 5)),
        _2d("one_channel", lambda: Conv2d(1, 1, 3), randn(1, 1, 5, 5)),
        _2d("one_layer_twice", lambda: Sequential(*[Conv2d(3, 3, 3)] * 2), randn(1, 3, 7, 6)),
        _2d("depthwise", lambda: Conv2d(4, 4, 3, padding=1, groups=4), randn(1, 4, 4, 5)),
        _2d("depthwise_multiplier", lambda: Conv2d(3, 6, 3, groups=3), randn(1, 3, 5, 5)),
        _2d("depthwise_stride", lambda: Conv2d(4, 4, 3, 2, groups=4), randn(1, 4, 7, 5)),
        _2d("depthwise_batch_norm_relu", lambda: _normalised(relu=True, groups=4),
            randn(1, 4, 5, 5)),
        _1d("bias", lambda: Conv1d(3, 5, 3), randn(2, 3, 8)),
        _1d("no_bias", lambda: Conv1d(3, 5, 3, bias=False), randn(1, 3, 8)),
        _1d("stride_padding", lambda: Conv1d(3, 5, 3, 2, 1), randn(1, 3, 8)),
        _1d("dilation", lambda: Conv1d(3, 5, 3, dilation=2), randn(1, 3, 9)),
        _1d("depthwise", lambda: Conv1d(4, 4, 3, groups=4), randn(1, 4, 8)),
        _1d("relu", lambda: Sequential(Conv1d(3, 5, 3), ReLU()), randn(1, 3, 8)),
    ),
    *on(
        "xnnpack:int8|xnnpack:int8_per_tensor",  # Arm's partitioner leaves it to the CPU
        _1d("transposed", lambda: ConvTranspose1d(3, 4, 3), randn(1, 3, 6)),
    ),
]  # fmt: skip

CASES: list[Case] = in_turns(_CASES, WITHOUT_PER_TENSOR)
