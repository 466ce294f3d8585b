"""Element-wise operators of one tensor."""

from __future__ import annotations

import math

import torch

from harness import Case
from suites.build import (
    COARSE,
    add_vacuous_reasons,
    bools,
    distinct,
    ints,
    nonzero,
    op,
    positive,
    randn,
    uniform,
    values,
)
from suites.selection import take_turns

_INF, _NAN = math.inf, math.nan

CASES: list[Case] = [
    op("abs/2d", torch.abs, randn(5, 7)),
    op("abs/scalar", torch.abs, randn()),
    op("abs/int32", torch.abs, ints(-50, 50, 3, 7, dtype=torch.int32)),
    op("abs/channels_last", torch.abs, randn(2, 3, 4, 5).channels_last()),
    op("abs/signed_zero_and_inf", torch.abs, values((-0.0, 0.0, -_INF, _INF, -2.5), 10)),
    op("neg/3d", torch.neg, randn(2, 3, 5)),
    op("neg/int64", torch.neg, ints(-99, 99, 4, 3)),
    op("neg/int8", torch.neg, ints(-127, 127, 4, 3, dtype=torch.int8)),
    op("neg/empty", torch.neg, randn(3, 0, 2)),
    op("sign/2d", torch.sign, nonzero(4, 6)),
    op("sign/with_zeros", torch.sign, ints(-2, 3, 4, 6, dtype=torch.float32)),
    op("sign/int32", torch.sign, ints(-2, 3, 4, 6, dtype=torch.int32)),
    op("sign/infinite", torch.sign, values((-_INF, _INF, -2.5, 0.0, 1.5), 10)),
    op("ceil/2d", torch.ceil, distinct(4, 7)),
    op("ceil/whole_numbers", torch.ceil, ints(-4, 5, 17, dtype=torch.float32)),
    op("floor/2d", torch.floor, distinct(4, 7)),
    op("floor/transposed", torch.floor, distinct(3, 4, 5).transposed()),
    op("round/2d", torch.round, distinct(4, 7)),
    op("round/halves_to_even", torch.round, values((-3.5, -2.5, -0.5, 0.5, 1.5, 2.5, 4.5), 14)),
    op("round/decimals", torch.round, values((1.234, -5.678, 12.341, -0.077), 8), decimals=2),
    op("trunc/2d", torch.trunc, distinct(4, 7)),
    op("trunc/large", torch.trunc, values((1e10, -1e10, 16777218.0, -0.75, 2.25), 10)),
    op("sqrt/2d", torch.sqrt, positive(5, 6)),
    op("sqrt/special_values", torch.sqrt, values((0.0, _INF, 1e-30, 1e30, 2.0), 10)),
    op("sqrt/int32_promotes", torch.sqrt, ints(0, 100, 9, dtype=torch.int32)),
    op("rsqrt/2d", torch.rsqrt, positive(5, 6)),
    op("rsqrt/special_values", torch.rsqrt, values((0.0, _INF, 1e-20, 1e20, 2.0), 10)),
    op("reciprocal/2d", torch.reciprocal, nonzero(5, 6)),
    op("reciprocal/special_values", torch.reciprocal, values((0.0, _INF, -_INF, 4.0, -1e20), 10)),
    op("exp/2d", torch.exp, randn(5, 6)),
    op("exp/large_magnitude", torch.exp,
       values((-200.0, -87.0, -20.0, 1.5, 20.0, 87.0, 200.0), 14)),
    op("exp/scalar", torch.exp, randn()),
    op("exp/fp16", torch.exp, randn(3, 5, dtype=torch.float16)),
    op("exp/int64_promotes", torch.exp, ints(-4, 5, 9)),
    op("expm1/3d", torch.expm1, randn(2, 3, 4)),
    op("expm1/near_zero", torch.expm1, uniform(-1e-4, 1e-4, 4, 5)),
    op("log/2d", torch.log, positive(5, 6)),
    op("log/special_values", torch.log, values((0.0, _INF, 1e-30, 1e30, 1.0), 10)),
    op("log1p/3d", torch.log1p, uniform(-0.9, 3.0, 2, 3, 4)),
    op("log1p/near_zero", torch.log1p, uniform(-1e-4, 1e-4, 4, 5)),
    op("log2/2d", torch.log2, positive(5, 6)),
    op("log10/2d", torch.log10, positive(5, 6)),
    op("sin/2d", torch.sin, uniform(-6.0, 6.0, 5, 6)),
    op("sin/large_arguments", torch.sin, uniform(-1e3, 1e3, 4, 8)),
    op("cos/2d", torch.cos, uniform(-6.0, 6.0, 5, 6)),
    op("cos/channels_last", torch.cos, randn(2, 3, 4, 5).channels_last()),
    op("tan/2d", torch.tan, uniform(-1.3, 1.3, 5, 6)),
    op("asin/2d", torch.asin, uniform(-0.9, 0.9, 5, 6)),
    op("acos/2d", torch.acos, uniform(-0.9, 0.9, 5, 6)),
    op("atan/2d", torch.atan, randn(5, 6)),
    op("atan/saturated", torch.atan, values((-_INF, -1e6, 0.0, 1e6, _INF), 10)),
    op("sinh/2d", torch.sinh, nonzero(5, 6)),
    op("sinh/near_zero", torch.sinh, values((-2e-3, -1e-4, 3e-5, 1e-3, 4e-3), 10)),
    op("cosh/2d", torch.cosh, randn(5, 6)),
    op("asinh/2d", torch.asinh, randn(5, 6)),
    op("acosh/2d", torch.acosh, uniform(1.2, 5.0, 5, 6)),
    op("atanh/2d", torch.atanh, values((-0.87, -0.61, -0.43, 0.38, 0.56, 0.92), 5, 6)),
    op("atanh/near_zero", torch.atanh, values((-2e-3, -1e-4, 3e-5, 1e-3, 4e-3), 10)),
    op("erf/2d", torch.erf, randn(5, 6)),
    op("erf/saturated", torch.erf, values((-_INF, -6.0, 0.0, 6.0, _INF), 10)),
    op("isinf/special_values", torch.isinf, values((_INF, -_INF, _NAN, 0.0, 1.5), 3, 5)),
    op("isnan/special_values", torch.isnan, values((_INF, -_INF, _NAN, 0.0, 1.5), 3, 5)),
    op("isfinite/special_values", torch.isfinite, values((_INF, -_INF, _NAN, 0.0, 1.5), 3, 5)),
    op("nan_to_num/special_values", torch.nan_to_num, values((_INF, -_INF, _NAN, 1.5), 8),
       nan=0.5, posinf=9.0, neginf=-7.0),
    op("frac/2d", torch.frac, distinct(4, 7)),
    op("logit/eps", torch.logit, uniform(0.0, 1.0, 5, 6), eps=0.05),
    op("bitwise_not/int32", torch.bitwise_not, ints(-99, 99, 4, 5, dtype=torch.int32)),
    op("bitwise_not/bool", torch.bitwise_not, bools(4, 5)),
    op("bitwise_not/uint8", torch.bitwise_not, ints(0, 256, 4, 5, dtype=torch.uint8)),
    op("logical_not/bool", torch.logical_not, bools(3, 5)),
    op("logical_not/fp32", torch.logical_not, ints(-1, 2, 3, 5, dtype=torch.float32)),
]

CASES = add_vacuous_reasons(
    CASES,
    {
        "atanh/near_zero": COARSE,
        "neg/empty": "it has no elements",
    },
)

CASES = take_turns(CASES)
