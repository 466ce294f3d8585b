"""Conversions between dtypes and memory formats."""

from __future__ import annotations

from dataclasses import replace

import torch

from harness import Case
from suites.build import add_vacuous_reasons, bools, distinct, ints, op, randn, uniform, values
from suites.selection import take_turns

_CL = torch.channels_last
_F16, _F32, _I8, _I32, _I64 = torch.float16, torch.float32, torch.int8, torch.int32, torch.int64

# In float16 the product with 3.6e9 is infinite.
_WIDE = (
    "portable:fp32|xnnpack:fp32|tosa:fp|tosa:int|mlx:fp32|mlx:bf16|metal:*|coreml:fp32|cortex_m:*"
)

CASES: list[Case] = [
    op("_to_copy/fp32_to_int32", lambda x: x.to(_I32), distinct(4, 7)),
    op("_to_copy/fp32_to_int64", lambda x: x.to(_I64), distinct(3, 5, step=37.0)),
    op("_to_copy/fp32_to_int8", lambda x: x.to(_I8), distinct(4, 7)),
    op("_to_copy/fp32_to_uint8", lambda x: x.to(torch.uint8), distinct(4, 7, offset=20.2)),
    op("_to_copy/fp32_to_bool", lambda x: x.to(torch.bool), values((0.0, -0.0, 1e-30, -2.5), 12)),
    op("_to_copy/fp32_to_fp16", lambda x: x.to(_F16), randn(4, 7)),
    op("_to_copy/fp32_to_fp16_overflows", lambda x: x.to(_F16), values((1e6, -1e6, 1e-9, 3.5), 8)),
    op("_to_copy/fp32_to_bf16_and_back", lambda x: x.to(torch.bfloat16).to(_F32), randn(4, 7)),
    op("_to_copy/fp16_to_fp32", lambda x: x.to(_F32), randn(4, 7, dtype=_F16)),
    op("_to_copy/int32_to_fp32", lambda x: x.to(_F32), ints(-9999, 9999, 4, 7, dtype=_I32)),
    op("_to_copy/int64_to_fp32", lambda x: x.to(_F32), ints(-9999, 9999, 4, 7)),
    op("_to_copy/int64_to_int32", lambda x: x.to(_I32), ints(-9999, 9999, 4, 7)),
    op("_to_copy/int32_to_int8_wraps", lambda x: x.to(_I8), ints(-999, 999, 4, 7, dtype=_I32)),
    op("_to_copy/int8_to_int32", lambda x: x.to(_I32), ints(-128, 128, 4, 7, dtype=_I8)),
    op("_to_copy/uint8_to_fp32", lambda x: x.to(_F32), ints(0, 256, 4, 7, dtype=torch.uint8)),
    op("_to_copy/bool_to_fp32", lambda x: x.to(_F32), bools(4, 7)),
    op("_to_copy/bool_to_int64", lambda x: x.to(_I64), bools(4, 7)),
    op("_to_copy/int32_to_bool", lambda x: x.to(torch.bool), ints(-1, 2, 4, 7, dtype=_I32)),
    replace(op("_to_copy/beyond_int32_and_back", lambda x: (x * 3.6e9).to(_I64).float() + x,
               uniform(0, 1, 3, 5)), targets=_WIDE),
    op("_to_copy/scalar", lambda x: x.to(_I64), distinct(offset=-5.7)),
    op("_to_copy/empty", lambda x: x.to(_I32), distinct(0, 3)),
    op("_to_copy/same_dtype", lambda x: x.to(_F32) + 1, randn(4, 7)),
    op("_to_copy/transposed", lambda x: x.to(_I32), distinct(4, 6).transposed()),
    op("_to_copy/channels_last_keeps_order", lambda x: x.to(_I32),
       distinct(2, 3, 4, 5).channels_last()),
    op("_to_copy/to_channels_last", lambda x: x.to(memory_format=_CL) * 2, randn(2, 3, 4, 5)),
    op("_to_copy/to_channels_last_and_dtype", lambda x: x.to(_I32, memory_format=_CL),
       distinct(2, 3, 4, 5)),
    op("_to_copy/computed_in_fp16", lambda x: (x.to(_F16) * 2).to(_F32), randn(4, 7)),
]

CASES = add_vacuous_reasons(
    CASES,
    {
        "_to_copy/empty": "it has no elements",
    },
)

CASES = take_turns(CASES)
