"""Activation functions."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from harness import Case
from suites.build import distinct, ints, nn_case, op, randn, uniform, values
from suites.selection import take_turns

_INF = math.inf
_SATURATED = (-_INF, -100.0, -30.0, 0.0, 30.0, 100.0, _INF)


def _prelu(channels: int) -> torch.nn.PReLU:
    module = torch.nn.PReLU(channels)
    module.weight.data.uniform_(0.1, 0.9)
    return module


CASES: list[Case] = [
    op("relu/2d", F.relu, randn(5, 7)),
    op("relu/inf_and_nan", F.relu, values((-_INF, _INF, math.nan, -1.0, 2.0), 10)),
    op("relu/int32", F.relu, ints(-9, 9, 5, 7, dtype=torch.int32)),
    op("relu/channels_last", F.relu, randn(2, 3, 4, 5).channels_last()),
    op("relu/sliced", F.relu, randn(4, 6).sliced(0)),
    op("relu/rank5", F.relu, randn(2, 1, 3, 2, 4)),
    op("relu/behind_relu6_of_product", lambda x, y: F.relu(F.relu6(x * y)),
       uniform(-4, 4, 3, 8), uniform(1, 3, 3, 8)),
    op("relu6/2d", F.relu6, distinct(5, 7)),
    op("hardtanh/default", F.hardtanh, distinct(5, 7)),
    op("hardtanh/asymmetric", F.hardtanh, distinct(5, 7), min_val=-0.25, max_val=3.0),
    op("hardsigmoid/2d", F.hardsigmoid, distinct(5, 7)),
    op("hardswish/2d", F.hardswish, distinct(5, 7)),
    op("leaky_relu/default", F.leaky_relu, randn(5, 7)),
    op("leaky_relu/slope", F.leaky_relu, randn(2, 3, 5), negative_slope=0.3),
    op("leaky_relu/negative_slope_below_zero", F.leaky_relu, randn(5, 7), negative_slope=-0.5),
    op("elu/default", F.elu, randn(5, 7)),
    op("elu/alpha", F.elu, randn(5, 7), alpha=1.7),
    op("elu/saturated", F.elu, values(_SATURATED, 14)),
    op("elu/two_of_one_tensor", lambda x: F.elu(x, 1.0) - F.elu(x, 0.25), uniform(-6, 6, 4, 8)),
    op("celu/alpha", F.celu, randn(5, 7), alpha=1.3),
    op("selu/2d", F.selu, randn(5, 7)),
    nn_case("prelu/shared", lambda: torch.nn.PReLU(init=0.3), randn(2, 3, 5)),
    nn_case("prelu/per_channel", lambda: _prelu(3), randn(2, 3, 5, 4)),
    op("gelu/exact", F.gelu, randn(5, 7)),
    op("gelu/tanh", F.gelu, randn(5, 7), approximate="tanh"),
    op("gelu/saturated", F.gelu, values((-100.0, -10.0, -5.0, 0.0, 5.0, 100.0), 12)),
    op("sigmoid/2d", torch.sigmoid, randn(5, 7)),
    op("sigmoid/saturated", torch.sigmoid, values(_SATURATED, 14)),
    op("sigmoid/fp16", torch.sigmoid, randn(3, 5, dtype=torch.float16)),
    op("sigmoid/int32_promotes", torch.sigmoid, ints(-4, 5, 9, dtype=torch.int32)),
    op("tanh/2d", torch.tanh, randn(5, 7)),
    op("tanh/saturated", torch.tanh, values(_SATURATED, 14)),
    op("tanh/transposed", torch.tanh, randn(4, 6).transposed()),
    op("silu/2d", F.silu, randn(5, 7)),
    op("silu/saturated", F.silu, values((-100.0, -30.0, 0.0, 30.0, 100.0), 10)),
    op("mish/2d", F.mish, randn(5, 7)),
    op("softplus/default", F.softplus, randn(5, 7)),
    op("softplus/beta_threshold", F.softplus, values((-30.0, -1.5, 0.5, 2.0, 9.0, 60.0), 12),
       beta=2.0, threshold=15.0),
    op("logsigmoid/saturated", F.logsigmoid, values((-90.0, -3.0, 0.0, 3.0, 90.0), 10)),
    op("softsign/2d", F.softsign, randn(5, 7)),
    op("tanhshrink/2d", F.tanhshrink, randn(5, 7)),
    op("threshold/2d", F.threshold, distinct(5, 7), threshold=0.5, value=-3.0),
    op("glu/last_dim", F.glu, randn(3, 8), dim=-1),
    op("glu/channels", F.glu, randn(2, 6, 5), dim=1),
]

CASES = take_turns(CASES)
