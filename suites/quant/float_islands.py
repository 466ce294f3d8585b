"""Operators that stay in float between quantized layers.

Arm's quantizer rewrites operators before it observes them, and must leave the others alone: each
pass of its ``transform_for_annotation`` asks ``allowed_to_transform``. The recipe quantizes linear
and convolution layers only, so the operator behind the layer must remain as it is: in float on
XNNPACK, and outside of the delegate of TOSA's integer profile, where ``fallbacks.json`` names it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch.nn import GRU, LSTM, RNN, Conv2d, Linear, Module

from harness import Case
from suites.build import nn_case, randn
from suites.quant.only import on

_TARGETS = "tosa:int+layer_types|xnnpack:int8+layer_types"
_WEIGHT = torch.linspace(-1, 1, 48)


class _Behind(Module):
    """A layer, and a function of its result.

    Args:
        layer: a quantized layer.
        function: the operator that stays in float.
        module: a module with weights to call instead.
    """

    def __init__(
        self,
        layer: Module,
        function: Callable[..., torch.Tensor] = lambda x: x,
        module: Module | None = None,
    ) -> None:
        super().__init__()
        self.layer, self.function, self.module = layer, function, module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.layer(x)
        if self.module is not None:
            hidden = self.module(hidden)
        return self.function(hidden)


def _linear(name: str, function: Callable[..., torch.Tensor]) -> Case:
    return nn_case(
        f"float_island/{name}", lambda: _Behind(Linear(12, 8), function), randn(2, 3, 12)
    )


def _convolution(name: str, function: Callable[..., torch.Tensor]) -> Case:
    return nn_case(
        f"float_island/{name}", lambda: _Behind(Conv2d(3, 4, 3), function), randn(1, 3, 8, 8)
    )


def _recurrent(name: str, module: Callable[..., Module]) -> Case:
    return nn_case(
        f"float_island/{name}",
        lambda: _Behind(Linear(12, 8), lambda result: result[0], module(8, 4, batch_first=True)),
        randn(1, 2, 12),
    )


def _accumulate(x: torch.Tensor) -> torch.Tensor:
    rows = torch.tensor([0, 1, 0])
    return torch.zeros(2, 8).index_put((rows,), x[0], accumulate=True)


_ISLANDS = on(
    _TARGETS,
    # Layers that are no modules of the quantized types.
    _linear("functional_linear", lambda x: F.linear(x, _WEIGHT.reshape(6, 8))),
    _convolution("functional_convolution", lambda x: F.conv2d(x, _WEIGHT.reshape(3, 4, 2, 2))),
    _linear("gelu", F.gelu),
    _linear("elu", F.elu),
    _linear("glu", F.glu),
    _linear("silu", F.silu),
    _linear("leaky_relu", lambda x: F.leaky_relu(x, 0.2)),
    _linear("prelu", lambda x: F.prelu(x, torch.tensor([0.2]))),
    _linear("softmax", lambda x: F.softmax(x, -1)),
    _linear("log_softmax", lambda x: F.log_softmax(x, -1)),
    _linear("layer_norm", lambda x: F.layer_norm(x, (8,))),
    _linear("mean", lambda x: x.mean(-1)),
    _linear("var", lambda x: x.var(-1)),
    _linear("norm", lambda x: torch.linalg.vector_norm(x, dim=-1)),
    _linear("sqrt", lambda x: x.abs().sqrt()),
    _linear("div", lambda x: x / (x.abs() + 1)),
    _linear("div_floor", lambda x: torch.div(x, 0.3, rounding_mode="floor")),
    _linear("sign", lambda x: x.sign() * x),
    _linear("logit", lambda x: torch.logit(torch.sigmoid(x), 1e-3)),
    _linear("ne", lambda x: (x.round() != 0) * x),
    _linear("lt", lambda x: (x < 0.1) * x),
    _linear("where_number", lambda x: torch.where(x > 0, x, 0.25)),
    _linear("clamp_max", lambda x: x.clamp(max=0.1)),
    _linear("max_dim", lambda x: x.max(-1).values),
    _linear("fill_minus_inf", lambda x: F.softmax(x.masked_fill(x > 0.5, -math.inf), -1)),
    _linear("cosine_similarity", lambda x: F.cosine_similarity(x[:, :1], x[:, 1:], dim=-1)),
    _linear("addmm", lambda x: torch.addmm(x[0], x[0] @ x[1].T, x[1], beta=0.5)),
    _linear("attention", lambda x: F.scaled_dot_product_attention(x, x, x)),
    _linear("add_in_place", lambda x: x.sigmoid().add_(x)),
    _linear("index_put_accumulate", _accumulate),
    _convolution("avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1)),
    _convolution("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (2, 3))),
    _convolution("group_norm", lambda x: F.group_norm(x, 2)),
    _convolution("batch_statistics", lambda x: F.instance_norm(x)),
    _convolution("scaled", lambda x: x * 0.37),
    _recurrent("gru", GRU),
    _recurrent("lstm", LSTM),
    _recurrent("rnn", RNN),
)

# XNNPACK has no pass that must leave these operators alone, but partitions around them.
_PLAIN_ON_BOTH = ("linear", "softmax", "attention", "max_dim", "scaled")


def _choose_plain_targets(case: Case, place: int) -> str:
    if case.name.endswith(_PLAIN_ON_BOTH):
        return "*"
    return "" if place % 2 else "tosa:int+layer_types"


CASES: list[Case] = [
    replace(case, plain_targets=_choose_plain_targets(case, place))
    for place, case in enumerate(_ISLANDS)
]
