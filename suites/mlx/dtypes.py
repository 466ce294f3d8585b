"""Dtypes and literals of MLX that differ from ATen's, so that the lowering must convert.

MLX promotes int64 and float16 unlike ATen, returns uint32 indices, keeps the dtype of integers in
sums, and divides integers as floats; the lowering turns Python numbers into constants of the
tensor's dtype. Outputs are cast to the planned dtype, so the cases compute with a result before
they return it.
"""

from __future__ import annotations

import torch

from harness import Case
from suites.build import add_vacuous_reasons, bools, distinct, ints, nonzero, op, randn, uniform
from suites.mlx.only import on_mlx
from suites.selection import take_one_of

_F16, _I8, _I32 = torch.float16, torch.int8, torch.int32
_LARGE = 2**24 + 1  # the first integer that float32 cannot hold

CASES: list[Case] = on_mlx(
    # One number beside tensors of two dtypes
    op("clamp/one_bound_two_dtypes", lambda x, y: (x.clamp(-0.3, 0.3), y.clamp(-0.3, 0.3)),
       randn(3, 4, dtype=_F16), randn(3, 4)),
    op("relu/zero_of_two_dtypes", lambda x, y: (x.relu() + 1, y.relu()), randn(3, 4),
       ints(-5, 5, 3, 4)),
    op("remainder/one_divisor_two_dtypes", lambda x, y: (torch.remainder(x, 2), y % 2),
       nonzero(3, 4), ints(-9, 9, 3, 4)),
    # Numbers beside integers
    op("add/integers_and_fraction", lambda x: x + 2.5, ints(-9, 9, 3, 4)),
    op("mul/integers_by_fraction", lambda x: x * 2.5, ints(-9, 9, 3, 4)),
    op("sub/integers_alpha", lambda x, y: torch.sub(x, y, alpha=3), ints(-9, 9, 3, 4),
       ints(-9, 9, 4)),
    op("div/integers_by_number", lambda x: x / 3, ints(-9, 9, 3, 4)),
    op("lt/integers_and_fraction", lambda x: x < 2.5, ints(0, 5, 8, 8)),
    op("ge/integers_and_fraction", lambda x: x >= -2.5, ints(-5, 0, 3, 4)),
    op("eq/integers_and_fraction", lambda x: x == 2.5, ints(0, 5, 8, 8)),
    op("clamp/integers_between_fractions", lambda x: x.clamp(0.5, 2.5), ints(-5, 5, 3, 4)),
    op("pow/integers_to_fraction", lambda x: x**0.5, ints(1, 9, 3, 4)),
    op("remainder/integers_by_fraction", lambda x: x % 2.5, ints(1, 9, 3, 4)),
    op("full/large_integer", lambda x: x + torch.full((3,), _LARGE), ints(0, 9, 3)),
    op("full_like/large_integer", lambda x: x + torch.full_like(x, _LARGE), ints(0, 9, 3)),
    op("add/large_integer", lambda x: x + _LARGE, ints(0, 9, 3)),
    op("full/integers_as_index", lambda x: x[torch.full((2,), 1)], randn(3, 4)),
    op("ones/integers_as_index", lambda x: x[torch.ones(2, dtype=torch.int64)], randn(3, 4)),
    op("full/condition", lambda x: torch.where(torch.full((4,), True), x, -x), randn(3, 4)),
    op("arange/integral_floats", lambda x: x + torch.arange(1.0, 5.0), randn(3, 4)),
    op("arange/from_fraction", lambda x: x + torch.arange(0.5, 4.5), randn(3, 4)),
    op("linspace/added", lambda x: x + torch.linspace(0, 1, 4), randn(3, 4)),
    op("cumsum/uint8_beyond_255", lambda x: x.cumsum(0) * 2, ints(1, 9, 99, 2, dtype=torch.uint8)),
    # Indices
    op("argmax/negated", lambda x: -x.argmax(-1), distinct(3, 4)),
    op("argmin/minus_number", lambda x: x.argmin(-1) - 4, distinct(3, 4)),
    op("argmax/minus_argmin", lambda x: x.argmax(-1) - x.argmin(-1), distinct(32, 4)),
    op("argmax/above_minus_one", lambda x: x.argmax(-1) > -1, distinct(3, 4)),
    op("argmax/halved", lambda x: x.argmax(-1) / 2, distinct(3, 4)),
    op("sort/indices_negated", lambda x: -x.sort(-1).indices, distinct(3, 4)),
    op("topk/index_differences", lambda x: (lambda i: i[:, :1] - i[:, 1:])(x.topk(3).indices),
       distinct(16, 5)),
    op("index/separate_leading_slice", lambda x, i, j: x[:, i, j], randn(2, 5, 6), ints(0, 5, 3),
       ints(0, 6, 3)),
    op("repeat_interleave/flattened", lambda x: x.repeat_interleave(2), randn(3, 4)),
    # Integer division
    op("floor_divide/exact_then_multiplied", lambda x: (x * 3 // 3) * 2, ints(-9, 9, 12)),
    op("floor_divide/rest_then_multiplied", lambda x: (x // 3) * 3, ints(1, 9, 12)),
    op("floor_divide/negative_then_multiplied", lambda x: (x // 3) * 3, ints(-9, 0, 12)),
    op("floor_divide/tensors_then_multiplied", lambda x, y: (x // y) * y, ints(-9, 9, 12),
       ints(2, 5, 12)),
    op("floor_divide/as_index", lambda x, y: y[x // 2], ints(0, 9, 4), randn(5, 3)),
    op("floor_divide/large", lambda x: x // 3, ints(2**30, 2**31, 5)),
    op("div/floor_mode_then_multiplied", lambda x: torch.div(x, 3, rounding_mode="floor") * 3,
       ints(-9, 9, 12)),
    op("div/trunc_mode_then_multiplied", lambda x: torch.div(x, 3, rounding_mode="trunc") * 3,
       ints(-9, 9, 12)),
    op("div/floor_mode_0d", lambda x: torch.div(x, 2.0, rounding_mode="floor"), uniform(5, 9)),
    op("mul/0d_by_number", lambda x: x * 2.5, randn()),
    # Sums of integers
    op("sum/of_comparison", lambda x: (x > 0).sum(-1) * 2, randn(3, 40)),
    op("sum/int8", lambda x: x.sum(-1) * 2, ints(100, 120, 3, 400, dtype=_I8)),
    op("sum/int32_beyond_int32", lambda x: x.sum(-1), ints(2**30, 2**31 - 1, 3, 4, dtype=_I32)),
    op("prod/int32_beyond_int32", lambda x: x.prod(-1), ints(50, 99, 3, 8, dtype=_I32)),
    op("cumsum/of_comparison", lambda x: (x > 0).cumsum(-1) * 2, randn(3, 5)),
    op("cumsum/int32_beyond_int32", lambda x: x.cumsum(-1),
       ints(2**30, 2**31 - 1, 3, 4, dtype=_I32)),
    op("mean/of_converted_bools", lambda x: x.float().mean(-1), bools(3, 5)),
    # dtypes that the delegate's runtime supports and its lowering does not
    op("add/int16_chain", lambda x: (x.neg() + 1).abs(), ints(-9, 9, 3, 4, dtype=torch.int16)),
)  # fmt: skip
CASES = take_one_of(2, CASES)

CASES = add_vacuous_reasons(
    CASES,
    {
        "argmax/above_minus_one": "an index is always above -1; its type is the point",
    },
)
