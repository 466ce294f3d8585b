"""Operators on float64, which XNNPACK's partitioner must leave to the portable kernels.

Each operator's configuration asks for valid dtypes by itself. ``fallbacks.json`` names the operator
that stays, so a configuration that takes it is red.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from torch.nn import BatchNorm2d, Conv1d, Conv2d, ConvTranspose2d, Linear, Module, PReLU, Sequential

from harness import Case
from suites.build import nn_case, op, randn, uniform
from suites.selection import take_one_of

_F64 = torch.float64
_normal = partial(randn, dtype=_F64)


def _module(name: str, make: Callable[[], Module], *shape: int) -> Case:
    return nn_case(f"float64/{name}", lambda: make().double().eval(), _normal(*shape))


def _unary(name: str, function: Callable[..., torch.Tensor], *shape: int) -> Case:
    return op(f"float64/{name}", function, _normal(*(shape or (3, 5))))


def _binary(name: str, function: Callable[..., torch.Tensor]) -> Case:
    return op(f"float64/{name}", function, _normal(3, 5), _normal(5))


_CASES = [
    *(
        _unary(function.__name__, function)
        for function in (
            torch.abs, torch.ceil, torch.exp, torch.floor, torch.neg, torch.relu, torch.sigmoid,
            torch.tanh, torch.square, torch.sin, torch.cos, F.elu, F.gelu, F.hardswish, F.hardtanh,
            F.leaky_relu,
        )
    ),
    op("float64/log", torch.log, uniform(0.5, 4, 3, 5, dtype=_F64)),
    op("float64/sqrt", torch.sqrt, uniform(0.5, 4, 3, 5, dtype=_F64)),
    op("float64/rsqrt", torch.rsqrt, uniform(0.5, 4, 3, 5, dtype=_F64)),
    _unary("clamp", lambda x: x.clamp(-0.5, 0.7)),
    _unary("softmax", lambda x: F.softmax(x, -1)),
    *map(_binary, ("add", "sub", "mul", "div"), (torch.add, torch.sub, torch.mul, torch.div)),
    _binary("maximum", torch.maximum),
    _binary("minimum", torch.minimum),
    _binary("cat", lambda a, b: torch.cat([a, b.unsqueeze(0)])),
    _unary("permute", lambda x: x.permute(1, 0) * 2, 3, 5),
    _unary("unsqueeze", lambda x: x.unsqueeze(1) * 2, 3, 5),
    _unary("slice", lambda x: x[:, 1:4] * 2, 3, 5),
    _unary("expand", lambda x: x.expand(4, 3, 5) * 2, 3, 5),
    _unary("constant_pad", lambda x: F.pad(x, (1, 2, 0, 1)), 3, 5),
    _unary("mean_of_images", lambda x: x.mean((-1, -2), keepdim=True), 2, 3, 4, 5),
    _unary("max_pool2d", lambda x: F.max_pool2d(x, 2), 1, 2, 6, 6),
    _unary("avg_pool2d", lambda x: F.avg_pool2d(x, 2), 1, 2, 6, 6),
    _unary("bilinear", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), 1, 2, 4, 5),
    op("float64/mm", torch.mm, _normal(3, 7), _normal(7, 5)),
    op("float64/bmm", torch.bmm, _normal(2, 3, 7), _normal(2, 7, 5)),
    op("float64/addmm", torch.addmm, _normal(5), _normal(3, 7), _normal(7, 5)),
    op("float64/attention", F.scaled_dot_product_attention, _normal(1, 2, 3, 8),
       _normal(1, 2, 3, 8), _normal(1, 2, 3, 8)),
    op("float64/to", lambda x: (x * 2).double(), randn(3, 5)),
    op("float64/to_float32", lambda x: x.float() * 2, _normal(3, 5)),
    _module("linear", lambda: Linear(7, 5), 3, 7),
    _module("conv1d", lambda: Conv1d(3, 4, 3), 1, 3, 9),
    _module("conv2d", lambda: Conv2d(3, 4, 3), 1, 3, 6, 7),
    _module("transposed_conv2d", lambda: ConvTranspose2d(3, 4, 3), 1, 3, 6, 7),
    _module("conv2d_batch_norm", lambda: Sequential(Conv2d(3, 4, 3), BatchNorm2d(4)), 1, 3, 6, 7),
    _module("batch_norm", lambda: BatchNorm2d(3), 2, 3, 4, 5),
    _module("prelu", lambda: PReLU(3), 2, 3, 4),
]  # fmt: skip

CASES: list[Case] = take_one_of(2, (replace(case, targets="xnnpack:fp32") for case in _CASES))
