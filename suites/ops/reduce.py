"""Reductions, scans, and searches along dimensions."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
import torch.nn.functional as F

from harness import Case
from suites.build import (
    CANCELS,
    COARSE,
    add_vacuous_reasons,
    bools,
    distinct,
    ints,
    nonzero,
    op,
    randn,
    uniform,
    values,
)
from suites.selection import take_turns

_I32 = torch.int32

CASES: list[Case] = [
    op("sum/all", torch.sum, randn(3, 4, 5)),
    op("sum/dim", torch.sum, randn(3, 4, 5), dim=1),
    op("sum/negative_dims_keepdim", torch.sum, randn(2, 3, 4, 5), dim=(-1, -3), keepdim=True),
    op("sum/rank5", torch.sum, randn(2, 3, 2, 4, 3), dim=(0, 2, 4)),
    op("sum/scalar", torch.sum, randn()),
    op("sum/empty_dim_gives_zeros", torch.sum, randn(3, 0, 2), dim=1),
    op("sum/size_one_dim", torch.sum, randn(3, 1, 5), dim=1),
    op("sum/int32_promotes", torch.sum, ints(-99, 99, 3, 5, dtype=_I32), dim=-1),
    op("sum/bool_counts", torch.sum, bools(3, 7), dim=1),
    op("sum/long_axis", torch.sum, randn(3, 4096), dim=-1),
    op("sum/transposed", torch.sum, randn(4, 6).transposed(), dim=0),
    op("sum/channels_last", torch.sum, randn(2, 3, 4, 5).channels_last(), dim=1),
    op("sum/out_dtype", torch.sum, randn(3, 5, dtype=torch.float16), dim=1, dtype=torch.float32),
    op("mean/all", torch.mean, randn(3, 4, 5)),
    op("mean/dim", torch.mean, randn(3, 4, 5), dim=0),
    op("mean/spatial_keepdim", torch.mean, randn(2, 3, 5, 7), dim=(2, 3), keepdim=True),
    op("mean/last_dim", torch.mean, randn(2, 3, 9), dim=-1, keepdim=True),
    op("mean/channels_last", torch.mean, randn(2, 3, 5, 7).channels_last(), dim=(-1, -2)),
    op("mean/fp16", torch.mean, randn(3, 8, dtype=torch.float16), dim=-1),
    op("prod/all", torch.prod, nonzero(3, 4)),
    op("prod/dim_keepdim", torch.prod, nonzero(3, 4, 5), dim=-2, keepdim=True),
    op("prod/int64", torch.prod, ints(1, 5, 3, 6), dim=1),
    op("var/unbiased", torch.var, randn(3, 4, 5), dim=1),
    op("var/biased_keepdim", torch.var, randn(3, 4, 5), dim=(0, -1), correction=0, keepdim=True),
    op("var/fractional_correction", torch.var, randn(3, 5), dim=1, correction=0.5),
    op("var/all", torch.var, randn(3, 7)),
    op("var/large_mean", torch.var, uniform(99.0, 101.0, 3, 16), dim=-1),
    # Cortex-M's observers take no NaN, and CoreML no empty list of dimensions.
    replace(op("var/one_element", torch.var, randn(4, 1), dim=1, vacuous="NaN for all"),
            targets="tosa:fp|tosa:int"),
    replace(op("var/empty_dims", torch.var, randn(3, 5), dim=(), keepdim=True),
            targets="tosa:fp|tosa:int"),
    op("var_mean/dim", torch.var_mean, randn(3, 4, 5), dim=-1),
    op("std/dim", torch.std, randn(3, 8), dim=-1),
    op("amax/dim", torch.amax, distinct(3, 4, 5), dim=1),
    op("amax/dims_keepdim", torch.amax, distinct(2, 3, 4, 5), dim=(-1, 1), keepdim=True),
    op("amax/all", torch.amax, distinct(3, 7)),
    op("amax/all_negative", torch.amax, uniform(-9.0, -1.0, 3, 7), dim=-1),
    op("amax/empty_dims_keepdim", lambda x: x / x.abs().amax(keepdim=True), distinct(4, 6)),
    op("amin/dim", torch.amin, distinct(3, 4, 5), dim=-2),
    op("amin/int32", torch.amin, ints(-99, 99, 3, 7, dtype=_I32), dim=1, keepdim=True),
    op("amin/minus_inf", torch.amin, values((1.0, -math.inf, math.inf, -2.0), 4, 5), dim=0),
    op("max/dim_values_and_indices", lambda x: tuple(torch.max(x, dim=1)), distinct(3, 4, 5)),
    op("max/all", torch.max, distinct(3, 7)),
    op("max/negative_dim_keepdim", lambda x: tuple(torch.max(x, -1, keepdim=True)),
       distinct(5, 7)),
    op("max/values_of_columns", lambda x: x.max(2, keepdim=True)[0], distinct(2, 3, 4, 5)),
    op("max/values_of_rows", lambda x: x.max(3, keepdim=True)[0] - 2.5, distinct(2, 3, 4, 5)),
    op("max/values_of_channels", lambda x: x.max(1, keepdim=True)[0], distinct(2, 3, 4, 5)),
    op("max/values_without_dim", lambda x: x.max(3)[0] - 2.5, distinct(2, 3, 4, 5)),
    op("max/indices_alone", lambda x: x.max(1)[1].float() + x[:, 0], distinct(4, 6)),
    op("min/dim_values_and_indices", lambda x: tuple(torch.min(x, dim=0)), distinct(3, 4, 5)),
    op("min/all_int64", torch.min, ints(-99, 99, 3, 7)),
    op("argmax/dim", torch.argmax, distinct(3, 4, 5), dim=1),
    op("argmax/all", torch.argmax, distinct(3, 7)),
    op("argmax/negative_dim_keepdim", torch.argmax, distinct(3, 4, 5), dim=-1, keepdim=True),
    op("argmax/transposed", torch.argmax, distinct(4, 6).transposed(), dim=1),
    op("argmax/to_int32", lambda x: x.argmax(1).to(_I32), distinct(3, 4, 5)),
    op("argmax/to_float", lambda x: x.argmax(1).float() / 2, distinct(3, 4, 5)),
    op("argmin/dim", torch.argmin, distinct(3, 4, 5), dim=2),
    op("argmin/all", torch.argmin, distinct(2, 3, 4)),
    op("any/all", torch.any, bools(3, 4)),
    op("any/dim", torch.any, values((*[0.0] * 6, 1.0), 7, 3, dtype=torch.bool), dim=1),
    op("any/fp32_keepdim", torch.any, values((*[0.0] * 6, -0.5), 7, 3), dim=-1, keepdim=True),
    op("all/dim", torch.all, values((*[1.0] * 6, 0.0), 3, 7, dtype=torch.bool), dim=0),
    op("cumsum/dim", torch.cumsum, randn(3, 4, 5), dim=1),
    op("cumsum/negative_dim", torch.cumsum, randn(3, 7), dim=-1),
    op("cumsum/int64", torch.cumsum, ints(-9, 9, 3, 7), dim=0),
    op("cumsum/bool_positions", torch.cumsum, bools(3, 7), dim=1),
    op("cumsum/to_int32", lambda x: x.cumsum(1, dtype=_I32), ints(-9, 9, 3, 7, dtype=_I32)),
    op("cumprod/dim", torch.cumprod, nonzero(3, 6), dim=1),
    op("topk/largest", lambda x: tuple(torch.topk(x, 3)), distinct(4, 9)),
    op("topk/smallest_dim0", lambda x: tuple(torch.topk(x, 2, dim=0, largest=False)),
       distinct(6, 3)),
    op("topk/all_elements", lambda x: tuple(torch.topk(x, 5, dim=-1)), distinct(2, 3, 5)),
    op("sort/ascending", lambda x: tuple(torch.sort(x, dim=-1)), distinct(3, 8)),
    op("sort/descending_dim0", lambda x: tuple(torch.sort(x, dim=0, descending=True)),
       distinct(8, 3)),
    op("sort/int64", lambda x: tuple(torch.sort(x)),
       distinct(2, 9, step=2.0, offset=1.0, dtype=torch.int64)),
    op("linalg_vector_norm/l2_dim", torch.linalg.vector_norm, randn(3, 4, 5), dim=-1),
    op("linalg_vector_norm/inf_dim", lambda x: torch.linalg.vector_norm(x, math.inf, dim=1),
       distinct(3, 7)),
    op("cosine_similarity/last_dim", F.cosine_similarity, randn(2, 5, 5), randn(2, 5, 5), dim=-1),
    op("cosine_similarity/large_eps", F.cosine_similarity, uniform(-0.1, 0.1, 4, 6),
       uniform(-0.1, 0.1, 4, 6), eps=1.0),
    op("_cdist_forward/l2", torch.cdist, randn(2, 3, 5), randn(2, 4, 5)),
    op("_pdist_forward/l2", F.pdist, randn(5, 4)),
]

CASES = add_vacuous_reasons(
    CASES,
    {
        "sum/empty_dim_gives_zeros": "a sum over nothing is 0",
        "sum/all": CANCELS,
        "sum/long_axis": CANCELS,
        "mean/all": CANCELS,
        "mean/spatial_keepdim": CANCELS,
        "var/large_mean": COARSE,
    },
)

CASES = take_turns(CASES)
