"""Element-wise arithmetic, activations and normalisation on the integer recipes.

XNNPACK's quantizer supports add, mul and operators that keep the scale of their input. Other
activations are cases of TOSA, which turns them into tables, and float islands on XNNPACK
(``suites/quant/joined.py``).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch.nn import LayerNorm

from harness import Case
from suites.build import COARSE, add_vacuous_reasons, nn_case, op, randn, uniform
from suites.quant.only import TOSA, WEIGHTLESS, in_turns, on, outlier, spread


def _add_relu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(a + b)


def _mul_relu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(a * b)


CASES: list[Case] = [
    *on(
        WEIGHTLESS,
        op("int_add/same_shape", torch.add, randn(3, 8), randn(3, 8)),
        op("int_add/broadcast", torch.add, randn(2, 3, 8), randn(8)),
        op("int_add/one_element", torch.add, randn(3, 8), randn(1)),
        op("int_add/scales_far_apart", torch.add, uniform(-100, 100, 3, 8), uniform(-1, 1, 3, 8)),
        op("int_add/cancels", torch.add, uniform(5, 6, 3, 8), uniform(-6, -5, 3, 8)),
        op("int_add/itself", lambda a: a + a, randn(3, 8)),
        op("int_add/number", lambda a: a + 0.75, randn(3, 8)),
        op("int_add/relu", _add_relu, randn(3, 8), randn(3, 8)),
        op("int_add/channels_last", torch.add, randn(1, 3, 4, 4).channels_last(),
           randn(1, 3, 4, 4).channels_last()),
        op("int_add/channels_last_cube", torch.add, randn(1, 4, 4, 4).channels_last(),
           randn(1, 4, 4, 4).channels_last()),
        op("int_mul/same_shape", torch.mul, randn(3, 8), randn(3, 8)),
        op("int_mul/broadcast", torch.mul, randn(2, 3, 8), randn(3, 1)),
        op("int_mul/positive_and_negative", torch.mul, uniform(0, 1, 3, 8), uniform(-9, 0, 3, 8)),
        op("int_mul/spread", torch.mul, spread(3, 8), spread(3, 8)),
        op("int_mul/itself", lambda a: a * a, randn(3, 8)),
        op("int_mul/number", lambda a: a * -1.5, randn(3, 8)),
        op("int_mul/relu", _mul_relu, randn(3, 8), randn(3, 8)),
    ),
    *on(
        "xnnpack:int8",  # TOSA has no tensors without dimensions
        op("int_add/number_that_is_a_sum", lambda a, b: (a + b) + a.sum(), randn(2, 6),
           randn(2, 6)),
    ),
    *on(
        TOSA,
        op("int_sub/same_shape", torch.sub, randn(3, 8), randn(3, 8)),
        op("int_sub/broadcast", torch.sub, randn(2, 3, 8), randn(8)),
        op("int_sub/scales_far_apart", torch.sub, uniform(-100, 100, 3, 8), uniform(-1, 1, 3, 8)),
        op("int_relu/randn", torch.relu, randn(3, 8)),
        op("int_relu/negative_values", torch.relu, uniform(-2, -1, 3, 8)),
        op("int_hardtanh/inside", F.hardtanh, randn(3, 8), min_val=-0.5, max_val=0.25),
        op("int_sigmoid/randn", torch.sigmoid, randn(3, 8)),
        op("int_sigmoid/saturates", torch.sigmoid, uniform(-30, 30, 3, 8)),
        op("int_tanh/randn", torch.tanh, randn(3, 8)),
        op("int_tanh/small_values", torch.tanh, uniform(-0.01, 0.01, 3, 8)),
        op("int_gelu/erf", F.gelu, randn(3, 8)),
        op("int_gelu/tanh", F.gelu, randn(3, 8), approximate="tanh"),
        op("int_silu/randn", F.silu, randn(3, 8)),
        op("int_hardswish/randn", F.hardswish, uniform(-5, 5, 3, 8)),
        op("int_hardsigmoid/randn", F.hardsigmoid, uniform(-5, 5, 3, 8)),
        op("int_leaky_relu/randn", F.leaky_relu, randn(3, 8), negative_slope=0.1),
        op("int_elu/randn", F.elu, randn(3, 8)),
        op("int_exp/randn", torch.exp, uniform(-3, 1, 3, 8)),
        op("int_rsqrt/positive", torch.rsqrt, uniform(0.5, 4, 3, 8)),
        op("int_abs/randn", torch.abs, randn(3, 8)),
        op("int_softmax/last", F.softmax, randn(3, 8), dim=-1),
        op("int_softmax/first", F.softmax, randn(4, 5), dim=0),
        op("int_softmax/outlier", F.softmax, outlier(3, 8), dim=-1),
        op("int_log_softmax/last", F.log_softmax, randn(3, 8), dim=-1),
        nn_case("int_layer_norm/affine", lambda: LayerNorm(8), randn(3, 8)),
        nn_case("int_layer_norm/plain", lambda: LayerNorm(8, elementwise_affine=False),
                uniform(1, 3, 2, 3, 8)),
    ),
]  # fmt: skip

CASES = add_vacuous_reasons(
    CASES,
    {
        "int_relu/negative_values": COARSE,
    },
)

CASES = in_turns(CASES)
