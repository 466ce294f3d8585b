"""Layers and small models on XNNPACK's recipes for half precision, which cast the module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch.nn import (
    AvgPool2d,
    BatchNorm2d,
    Conv1d,
    Conv2d,
    ConvTranspose2d,
    GroupNorm,
    LayerNorm,
    Linear,
    MaxPool2d,
    Module,
    ReLU,
    Sequential,
)

from harness import Case
from suites.build import ints, nn_case, op, randn, uniform
from suites.quant.int4 import Attention, Pictures, Tied
from suites.quick.cases import Running

_TARGETS = "xnnpack:fp16|xnnpack:bf16"
_BATCH = torch.export.Dim("batch", min=1, max=16)

_PLAIN = {
    "half_linear/bias": _TARGETS,
    "half_conv/2d": "xnnpack:fp16",
    "half_norm/wide_layer": _TARGETS,
    "half_model/mlp": _TARGETS,
    "half_model/tied": "xnnpack:bf16",
}


def _stack(*makes: Callable[[], Module]) -> Callable[[], Module]:
    return lambda: Sequential(*(make() for make in makes))


CASES: list[Case] = [
    replace(case, targets=_TARGETS, plain_targets=_PLAIN.get(case.name, ""))
    for case in (
        nn_case("half_linear/bias", lambda: Linear(64, 24), randn(5, 64)),
        nn_case("half_linear/no_bias", lambda: Linear(37, 13, bias=False), randn(2, 3, 37)),
        nn_case("half_linear/long_sum", lambda: Linear(2048, 8), randn(4, 2048)),
        nn_case("half_linear/dynamic_batch", lambda: Linear(64, 8), randn(4, 64),
                dynamic_shapes=[{0: _BATCH}], calls=[[randn(1, 64)], [randn(16, 64)]]),
        nn_case("half_conv/2d", lambda: Conv2d(3, 8, 3), randn(1, 3, 7, 7)),
        nn_case("half_conv/depthwise", lambda: Conv2d(4, 4, 3, groups=4), randn(1, 4, 6, 6)),
        nn_case("half_conv/1d", lambda: Conv1d(3, 5, 3), randn(1, 3, 9)),
        nn_case("half_conv/transposed", lambda: ConvTranspose2d(3, 4, 3), randn(1, 3, 4, 4)),
        nn_case("half_conv/batch_norm", _stack(lambda: Conv2d(3, 4, 3), lambda: BatchNorm2d(4)),
                randn(1, 3, 6, 6)),
        nn_case("half_norm/layer", lambda: LayerNorm(64), randn(3, 64)),
        nn_case("half_norm/wide_layer", lambda: LayerNorm(512), randn(3, 512)),
        nn_case("half_norm/group", lambda: GroupNorm(2, 8), randn(2, 8, 4, 4)),
        nn_case("half_pool/max", lambda: MaxPool2d(2), randn(1, 3, 6, 6)),
        nn_case("half_pool/average", lambda: AvgPool2d(2), uniform(0.5, 1, 1, 3, 6, 6)),
        op("half_gelu/plain", F.gelu, randn(3, 24)),
        op("half_softmax/last", torch.softmax, randn(3, 24), dim=-1),
        op("half_matmul/batched", torch.bmm, randn(2, 5, 16), randn(2, 16, 6)),
        op("half_mean/last", torch.mean, uniform(1, 2, 3, 24), dim=-1, keepdim=True),
        nn_case("half_model/mlp",
                _stack(lambda: Linear(32, 64), ReLU, lambda: Linear(64, 16)), randn(3, 32)),
        nn_case("half_model/tied", Tied, ints(0, 50, 2, 5)),
        nn_case("half_model/attention", Attention, randn(1, 5, 64)),
        nn_case("half_model/pictures", Pictures, randn(2, 3, 5, 5)),
        nn_case("half_model/state", Running, randn(4, 8), calls=[[randn(4, 8)], [randn(4, 8)]]),
    )
]  # fmt: skip
