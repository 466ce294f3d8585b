"""Operators that create tensors; each also has an input, because a program needs one."""

from __future__ import annotations

import torch

from harness import Case
from suites.build import add_vacuous_reasons, bools, ints, op, randn
from suites.selection import take_turns

_I32 = torch.int32

CASES: list[Case] = [
    op("arange/end", lambda x: x + torch.arange(6), randn(3, 6)),
    op("arange/start_step", lambda x: torch.arange(-3, 9, 2) * x, ints(-9, 9, 2, 6)),
    op("arange/negative_step_fp32", lambda x: x * torch.arange(2.5, -1.0, -0.5), randn(3, 7)),
    op("arange/from_shape", lambda x: torch.arange(x.shape[1], dtype=x.dtype), randn(2, 5)),
    op("full/shape", lambda x: x + torch.full((3, 1), -1.75), randn(3, 5)),
    op("full/int64", lambda x: x + torch.full((5,), 7), ints(-9, 9, 3, 5)),
    op("full/bool", lambda x: x ^ torch.full((3, 5), True), bools(3, 5)),
    op("full_like/fp32", torch.full_like, randn(3, 5), fill_value=2.5),
    op("full_like/other_dtype", torch.full_like, randn(3, 5), fill_value=3, dtype=_I32),
    op("full_like/channels_last", torch.full_like, randn(2, 3, 4, 5).channels_last(),
       fill_value=-0.5),
    op("full_like/to_int32", lambda x: torch.full_like(x, 2.7, dtype=_I32) + x, randn(3, 5)),
    op("zeros_like/empty", torch.zeros_like, randn(0, 3)),
    op("ones_like/int32", torch.ones_like, ints(-9, 9, 3, 5, dtype=_I32)),
    op("scalar_tensor/fp32", lambda x: x * torch.scalar_tensor(1.5), randn(3, 5)),
    op("fill/number", lambda x: torch.fill(x, 4.25), randn(3, 5)),
    op("fill/from_tensor", torch.fill, randn(3, 5), randn()),
    op("clone/contiguous", lambda x: x.clone(), randn(3, 5)),
    op("clone/of_transposed", lambda x: x.clone(), randn(4, 6).transposed()),
    op("clone/transposed_to_contiguous", lambda x: x.t().contiguous(), randn(4, 6)),
    op("clone/to_channels_last", lambda x: x.contiguous(memory_format=torch.channels_last),
       randn(2, 3, 4, 5)),
    op("clone/from_channels_last",
       lambda x: x.contiguous(memory_format=torch.contiguous_format) + 1,
       randn(2, 3, 4, 5).channels_last()),
    op("copy/broadcast", lambda x, y: torch.zeros(3, 5).copy_(x) + y, randn(5), randn(3, 5)),
    op("copy/converts", lambda x: torch.zeros(3, 5).copy_(x), ints(-9, 9, 3, 5)),
    op("linspace/points", lambda x: x * torch.linspace(-1.0, 2.0, 7), randn(2, 7)),
    op("eye/identity", lambda x: x + torch.eye(4), randn(4, 4)),
    op("meshgrid/ij", lambda a, b: torch.meshgrid(a, b, indexing="ij"), randn(3), randn(5)),
    op("lift_fresh_copy/constant", lambda x: x + torch.tensor([0.5, -1.5, 2.5]), randn(2, 3)),
    op("dropout/eval_is_identity", lambda x: torch.dropout(x, 0.5, False) * 2, randn(3, 5)),
]

CASES = add_vacuous_reasons(
    CASES,
    {
        "fill/from_tensor": "it makes a constant",
        "fill/number": "it makes a constant",
        "full_like/fp32": "it makes a constant",
        "full_like/other_dtype": "it makes a constant",
        "ones_like/int32": "it makes a constant",
        "zeros_like/empty": "it has no elements",
    },
)

CASES = take_turns(CASES)
