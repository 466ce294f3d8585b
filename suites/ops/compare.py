"""Comparisons, selection by condition, and clamping."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from harness import Case
from suites.build import (
    COARSE,
    add_vacuous_reasons,
    bools,
    distinct,
    full,
    ints,
    op,
    randn,
    uniform,
    values,
)
from suites.selection import take_turns

_INF, _NAN = math.inf, math.nan
_F32, _I32 = torch.float32, torch.int32

CASES: list[Case] = [
    op("eq/tensor", torch.eq, ints(-3, 4, 4, 6, dtype=_F32), ints(-3, 4, 4, 6, dtype=_F32)),
    op("eq/number", torch.eq, values((-1.0, 0.5, 2.0), 4, 6), other=2.0),
    op("eq/int64", torch.eq, ints(-3, 4, 4, 6), ints(-3, 4, 6)),
    op("eq/bool", torch.eq, bools(4, 6), bools(4, 6)),
    op("eq/nan_and_inf", torch.eq, values((_NAN, _INF, -_INF, 1.0), 4, 12),
       values((_NAN, _INF, -_INF, 1.0), 4, 12)),
    op("ne/tensor", torch.ne, ints(-3, 4, 4, 6, dtype=_F32), ints(-3, 4, 4, 1, dtype=_F32)),
    op("ne/int32_number", torch.ne, ints(-3, 4, 4, 6, dtype=_I32), other=-1),
    op("ge/tensor", torch.ge, distinct(4, 6), distinct(4, 6, offset=0.45)),
    op("ge/ties", torch.ge, ints(-3, 4, 4, 6, dtype=_F32), ints(-3, 4, 4, 6, dtype=_F32)),
    op("ge/number", torch.ge, distinct(4, 6), other=1.0),
    op("gt/broadcast", torch.gt, distinct(2, 3, 4), distinct(3, 1, offset=0.45)),
    op("gt/ties", torch.gt, ints(-3, 4, 4, 6, dtype=_F32), ints(-3, 4, 4, 6, dtype=_F32)),
    op("gt/int32", torch.gt, ints(-9, 9, 4, 6, dtype=_I32), ints(-9, 9, 4, 6, dtype=_I32)),
    op("gt/scalars", torch.gt, uniform(2.0, 3.0), uniform(-1.0, 1.0)),
    op("le/tensor", torch.le, distinct(4, 6), distinct(4, 6, offset=0.45)),
    op("le/ties", torch.le, ints(-3, 4, 4, 6, dtype=_F32), ints(-3, 4, 4, 6, dtype=_F32)),
    op("le/int64_number", torch.le, ints(-9, 9, 4, 6), other=0),
    op("lt/broadcast", torch.lt, distinct(4, 1), distinct(6, offset=0.45)),
    op("lt/ties", torch.lt, ints(-3, 4, 4, 6, dtype=_F32), ints(-3, 4, 4, 6, dtype=_F32)),
    op("lt/nan_is_false", torch.lt, values((_NAN, 1.0, -1.0), 9), full(0.5, 9)),
    op("lt/empty", torch.lt, distinct(0, 3), distinct(3)),
    op("where/tensor", torch.where, bools(3, 5), randn(3, 5), randn(3, 5)),
    op("where/broadcast", torch.where, bools(3, 1), randn(2, 1, 5), randn(5)),
    replace(op("where/nan_number", lambda x: torch.where(x > 0, x, torch.nan) * 2.0, randn(3, 5)),
            targets="portable:fp32|xnnpack:fp32|tosa:fp|mlx:fp32|metal:fp32"),
    op("where/number", lambda c, x: torch.where(c, x, 0.25), bools(3, 5), randn(3, 5)),
    op("where/unselected_nan", torch.where, bools(12), randn(12), values((_NAN, _INF, 2.0), 12)),
    op("where/int64", torch.where, bools(3, 5), ints(-9, 9, 3, 5), ints(-9, 9, 5)),
    op("where/computed_condition", lambda x, y: torch.where(x > 0, x, y), distinct(3, 5),
       randn(3, 5)),
    op("where/bool_and_fp32", lambda x, y: torch.where(x > 0, x > 1, y), distinct(3, 5),
       randn(3, 5)),
    op("where/fp32_and_bool", lambda x, y: torch.where(x > 0, y, x > -1), distinct(3, 5),
       randn(3, 5)),
    op("masked_fill/number", lambda x, m: x.masked_fill(m, -7.5), randn(3, 5), bools(3, 5)),
    op("masked_fill/minus_inf", lambda x, m: x.masked_fill(m, -_INF), randn(2, 3, 5), bools(5)),
    op("clamp/both", torch.clamp, distinct(4, 6, offset=0.1), min=-1.5, max=2.0),
    op("clamp/min_only", torch.clamp, distinct(4, 6, offset=0.1), min=-0.75),
    op("clamp/max_only", torch.clamp, distinct(4, 6, offset=0.1), max=0.75),
    op("clamp/min_above_max", torch.clamp, randn(4, 6), min=1.0, max=-1.0),
    op("clamp/inf", torch.clamp, values((-_INF, _INF, 0.5, -3.0), 8), min=-2.0, max=2.0),
    op("clamp/int32", torch.clamp, ints(-9, 9, 4, 6, dtype=_I32), min=-4, max=3),
    op("clamp/tensor_bounds", torch.clamp, randn(3, 5), full(-0.5, 5), full(0.75, 3, 1)),
    op("clamp/channels_last", torch.clamp, randn(2, 3, 4, 5).channels_last(), min=-0.5, max=0.5),
]

CASES = add_vacuous_reasons(
    CASES,
    {
        "clamp/min_above_max": "every element becomes the maximum",
        "eq/number": COARSE,
        "lt/empty": "it has no elements",
    },
)

CASES = take_turns(CASES)
