"""A case or more for each kernel that the Cortex-M backend puts in place of an operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch.nn import (
    AvgPool2d,
    BatchNorm2d,
    Conv2d,
    ConvTranspose2d,
    Flatten,
    Hardsigmoid,
    Hardtanh,
    Linear,
    MaxPool2d,
    Module,
    ReLU,
    ReLU6,
    Sequential,
    Softmax,
)

from harness import Case
from suites.build import Input, nn_case, op, positive, randn, uniform


class Residual(Module):
    """A depthwise separable block with a residual connection, as in MobileNetV2."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Sequential(
            Conv2d(8, 16, 1), BatchNorm2d(16), ReLU6(),
            Conv2d(16, 16, 3, padding=1, groups=16), BatchNorm2d(16), ReLU6(),
            Conv2d(16, 8, 1), BatchNorm2d(8),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = x + self.block(x)
        return result


def _make_image_network() -> Module:
    return Sequential(
        Conv2d(3, 8, 3, stride=2, padding=1), ReLU(), Residual(), MaxPool2d(2), AvgPool2d(2),
        Flatten(), Linear(32, 10), Softmax(-1),
    )  # fmt: skip


def _spread_channels(layer: Conv2d) -> Conv2d:
    """Give the channels of a weight scales from 0.01 to 10."""
    with torch.no_grad():
        layer.weight *= torch.logspace(-2, 1, len(layer.weight)).reshape(-1, 1, 1, 1)
    return layer


def _conv(name: str, layer: Callable[[], Module], x: Input) -> Case:
    return nn_case(f"cortex_m/conv2d_{name}", layer, x)


def _shift(layer: Linear) -> Linear:
    """Return the layer with results around -2."""
    torch.nn.init.constant_(layer.bias, -2.0)
    return layer


def _linear(name: str, layer: Callable[[], Module], x: Input) -> Case:
    return nn_case(f"cortex_m/linear_{name}", layer, x)


_LAYERS = [
    _linear("bias", lambda: Linear(16, 8), randn(3, 16)),
    _linear("no_bias", lambda: Linear(16, 8, bias=False), randn(3, 16)),
    # Zero points far from 0: the sums of weights (M55) or inputs (M4) are large.
    _linear("positive_inputs", lambda: Linear(16, 8), uniform(3, 5, 3, 16)),
    _linear("rank3", lambda: Linear(16, 8), randn(2, 3, 16)),
    _linear("relu", lambda: Sequential(Linear(16, 8), ReLU()), randn(3, 16)),
    _linear("hardtanh", lambda: Sequential(Linear(16, 8), Hardtanh(-0.4, 0.6)), randn(3, 16)),
    _linear("hardsigmoid_low", lambda: Sequential(_shift(Linear(16, 8)), Hardsigmoid()),
            randn(3, 16)),
    _linear("two", lambda: Sequential(Linear(16, 8), Linear(8, 4)), randn(3, 16)),
    _conv("bias", lambda: Conv2d(3, 4, 3), randn(1, 3, 6, 7)),
    _conv("no_bias", lambda: Conv2d(3, 4, 3, bias=False), randn(1, 3, 6, 7)),
    _conv("padding", lambda: Conv2d(3, 4, 3, padding=(1, 2)), randn(1, 3, 6, 7)),
    _conv("stride", lambda: Conv2d(3, 4, (2, 3), stride=(2, 1)), randn(1, 3, 6, 7)),
    _conv("batch", lambda: Conv2d(3, 4, 3), randn(2, 3, 6, 7)),
    _conv("groups", lambda: Conv2d(4, 6, 3, groups=2), randn(1, 4, 6, 7)),
    _conv("pointwise", lambda: Conv2d(5, 7, 1), randn(1, 5, 4, 3)),
    _conv("relu6", lambda: Sequential(Conv2d(3, 4, 3), ReLU6()), randn(1, 3, 6, 7)),
    _conv("unlike_channels", lambda: _spread_channels(Conv2d(3, 6, 3)), randn(1, 3, 6, 7)),
    _conv("depthwise", lambda: Conv2d(4, 4, 3, groups=4), randn(1, 4, 6, 7)),
    _conv("depthwise_twofold", lambda: Conv2d(4, 8, 3, groups=4), randn(1, 4, 6, 7)),
    _conv("depthwise_unlike_channels",
          lambda: _spread_channels(Conv2d(6, 6, 3, padding=1, groups=6)), randn(1, 6, 6, 7)),
    _conv("transposed", lambda: ConvTranspose2d(3, 4, 3), randn(1, 3, 5, 6)),
    _conv("transposed_stride", lambda: ConvTranspose2d(3, 4, 3, stride=2),
          randn(1, 3, 5, 6)),
]  # fmt: skip
_POOLS = [
    nn_case("cortex_m/avg_pool2d", lambda: AvgPool2d(2, 2), randn(1, 3, 6, 8)),
    nn_case(
        "cortex_m/avg_pool2d_ceil_mode", lambda: AvgPool2d(3, 2, ceil_mode=True), randn(1, 3, 6, 8)
    ),
    nn_case("cortex_m/avg_pool2d_overlapping", lambda: AvgPool2d(3, 1), randn(1, 3, 6, 8)),
    nn_case("cortex_m/max_pool2d", lambda: MaxPool2d(2), randn(1, 3, 6, 8)),
    nn_case("cortex_m/max_pool2d_padding", lambda: MaxPool2d(3, 2, 1), randn(1, 3, 6, 8)),
]
_ELEMENTWISE = [
    op("cortex_m/add", torch.add, randn(3, 8), randn(3, 8)),
    op("cortex_m/add_unlike_scales", torch.add, uniform(-50, 50, 3, 8), uniform(-1, 1, 3, 8)),
    op("cortex_m/add_alpha", lambda a, b: torch.add(a, b, alpha=3), randn(3, 8), randn(3, 8)),
    op("cortex_m/add_relu", lambda a, b: torch.relu(a + b), randn(3, 8), randn(3, 8)),
    op("cortex_m/sub", torch.sub, uniform(-9, 9, 3, 8), randn(3, 8)),
    op("cortex_m/mul", torch.mul, randn(3, 8), uniform(1, 5, 3, 8)),
    op("cortex_m/mul_channel", torch.mul, randn(1, 3, 4, 4).channels_last(),
       randn(1, 3, 1, 1).channels_last()),
    op("cortex_m/div", torch.div, randn(3, 8), uniform(1, 5, 3, 8)),
    op("cortex_m/minimum", torch.minimum, randn(3, 8), randn(3, 8)),
    op("cortex_m/maximum", torch.maximum, randn(3, 8), randn(3, 8)),
    op("cortex_m/bmm", torch.bmm, randn(2, 3, 5), randn(2, 5, 4)),
    op("cortex_m/softmax", lambda x: F.softmax(x, -1), randn(3, 8)),
    op("cortex_m/transpose", lambda x: torch.relu(x).permute(1, 2, 0), randn(2, 3, 4)),
    op("cortex_m/pad", lambda x: F.pad(torch.relu(x), (1, 2)), randn(2, 3, 4)),
    op("cortex_m/pad_behind_pool",
       lambda x: F.pad(F.max_pool2d(x.unsqueeze(0), (2, 1)), (0, 0, 1, 1)), randn(4, 8, 3)),
    op("cortex_m/pad_behind_pool_channels_last",
       lambda x: F.pad(F.max_pool2d(x, (2, 1)), (0, 0, 1, 1)), randn(1, 4, 8, 3).channels_last()),
]  # fmt: skip
_TABLES = [
    op(f"cortex_m/{function.__name__}", function, x)
    for function, x in (
        (torch.sigmoid, uniform(-6, 6, 4, 9)), (torch.tanh, uniform(-3, 3, 4, 9)),
        (F.silu, uniform(-6, 6, 4, 9)), (F.gelu, uniform(-4, 4, 4, 9)),
        (torch.log, positive(4, 9)), (torch.log2, positive(4, 9)),
        (torch.log10, positive(4, 9)), (torch.log1p, positive(4, 9)),
        (torch.sqrt, positive(4, 9)), (torch.rsqrt, uniform(0.5, 4, 4, 9)),
    )
]  # fmt: skip
_BOUNDED = [
    # Small values: the kernel rounds their product to halves of a step first.
    op("cortex_m/mul_of_clamped", lambda x: torch.square(x.clamp(-0.2, 0.5)),
       uniform(-2.5, 2.5, 12, 12)),
    op("cortex_m/hardtanh_of_tanh", lambda x: F.hardtanh(torch.tanh(x), -0.5, 0.5),
       uniform(-3, 3, 4, 9)),
    op("cortex_m/relu_of_sigmoid", lambda x: torch.relu(torch.sigmoid(x)), uniform(-6, 6, 4, 9)),
    op("cortex_m/add_clamp_below", lambda a, b: (a + b).clamp(max=0.5), randn(3, 8), randn(3, 8)),
    op("cortex_m/add_clamp_above", lambda a, b: (a + b).clamp(min=0.5), randn(3, 8), randn(3, 8)),
    _conv("clamp_above", lambda: Sequential(Conv2d(3, 4, 3), Hardtanh(0.1, 0.9)),
          randn(1, 3, 6, 7)),
    _linear("clamp_above", lambda: Sequential(Linear(16, 8), Hardtanh(0.1, 0.9)), randn(3, 16)),
]  # fmt: skip
_MODELS = [nn_case("cortex_m/image_network", _make_image_network, randn(1, 3, 16, 16))]

CASES: list[Case] = [
    replace(
        case,
        targets="cortex_m:*",
        plain_targets="cortex_m:int8",
        tags=case.tags | {"cortex_m", "int"},
    )
    for case in (*_LAYERS, *_POOLS, *_ELEMENTWISE, *_TABLES, *_BOUNDED, *_MODELS)
]
