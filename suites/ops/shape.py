"""Operators that move data without computation: views, joins, splits, padding."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F

from harness import Case
from suites.build import FLOATS_AND_TOSA, add_vacuous_reasons, bools, ints, op, randn, values
from suites.selection import take_turns

_I32, _U8, _F16 = torch.int32, torch.uint8, torch.float16
_LARGE = (16777217, -33554433, 123456789, 2147483647)
"""Integers that float32 rounds."""
_LAYOUTS = "portable:fp32|xnnpack:fp32|tosa:fp|tosa:int"
"""Targets that take channels-last inputs; OpenVINO misreads them, and others refuse them."""

CASES: list[Case] = [
    op("view_copy/flatten", lambda x: x.reshape(2, -1), randn(2, 3, 4)),
    op("view_copy/split_dim", lambda x: x.view(2, 3, 2, 5), randn(6, 10)),
    op("view_copy/to_scalar", lambda x: x.view(()), randn(1, 1)),
    op("view_copy/of_transposed", lambda x: x.reshape(3, 8), randn(4, 6).transposed()),
    op("view_copy/after_transpose", lambda x: x.transpose(1, 2).reshape(2, 12), randn(2, 3, 4)),
    op("view_copy/channels_last_flatten", lambda x: x.flatten(1),
       randn(2, 3, 4, 5).channels_last()),
    replace(op("view_copy/channels_last_read", lambda x: x.flatten(2).softmax(-1),
               randn(2, 3, 4, 5).channels_last()), targets=_LAYOUTS),
    op("view_copy/empty", lambda x: x.reshape(4, 0), randn(0, 4)),
    op("view_copy/bool", lambda x: x.reshape(5, 4), bools(4, 5)),
    op("permute_copy/3d", lambda x: x.permute(2, 0, 1), randn(2, 3, 4)),
    op("permute_copy/negative_dims", lambda x: x.permute(0, -1, -3, -2), randn(2, 3, 4, 5)),
    op("permute_copy/rank5", lambda x: x.permute(4, 1, 3, 0, 2), randn(2, 3, 1, 4, 5)),
    op("permute_copy/to_channels_last_and_back", lambda x: (x.permute(0, 2, 3, 1) * 2)
       .permute(0, 3, 1, 2), randn(2, 3, 4, 5)),
    op("permute_copy/channels_last_input", lambda x: x.permute(0, 2, 3, 1),
       randn(2, 3, 4, 5).channels_last()),
    op("permute_copy/large_int32", lambda x: x.permute(1, 0), values(_LARGE, 4, 3, dtype=_I32)),
    op("transpose_copy/matrix", lambda x: x.t(), randn(3, 5)),
    op("transpose_copy/negative_dims", lambda x: x.transpose(-1, -3), randn(2, 3, 4, 5)),
    op("transpose_copy/int64", lambda x: x.transpose(0, 1), ints(-99, 99, 3, 5)),
    op("squeeze_copy/dim", lambda x: x.squeeze(1), randn(3, 1, 5)),
    op("squeeze_copy/dims", lambda x: x.squeeze((0, -1)), randn(1, 3, 1, 5, 1)),
    op("squeeze_copy/all", lambda x: x.squeeze(), randn(1, 3, 1, 5)),
    op("unsqueeze_copy/front", lambda x: x.unsqueeze(0), randn(3, 5)),
    op("unsqueeze_copy/negative_dim", lambda x: x.unsqueeze(-2), randn(3, 5)),
    op("unsqueeze_copy/scalar", lambda x: x.unsqueeze(0), randn()),
    replace(op("unsqueeze_copy/channels_last", lambda x: x.unsqueeze(1),
               randn(2, 3, 4, 5).channels_last()), targets=_LAYOUTS),
    op("expand_copy/size_one", lambda x: x.expand(3, 4, 5), randn(3, 1, 5)),
    op("expand_copy/new_dims", lambda x: x.expand(2, 3, -1, -1), randn(4, 5)),
    op("expand_copy/scalar", lambda x: x.expand(2, 3), randn()),
    op("repeat/2d", lambda x: x.repeat(2, 3), randn(3, 2)),
    op("repeat/new_dims", lambda x: x.repeat(2, 1, 3), randn(4, 5)),
    op("repeat/zero_times", lambda x: x.repeat(0, 2), randn(3, 5)),
    op("repeat_interleave/dim", lambda x: x.repeat_interleave(3, dim=1), randn(2, 4)),
    op("slice_copy/middle", lambda x: x[1:4], randn(6, 3)),
    op("slice_copy/step", lambda x: x[:, 1:8:3], randn(3, 9)),
    op("slice_copy/negative_bounds", lambda x: x[..., -4:-1], randn(2, 3, 6)),
    op("slice_copy/past_the_end", lambda x: x[2:100], randn(5, 3)),
    op("slice_copy/to_empty", lambda x: x[3:3], randn(5, 3)),
    op("slice_copy/from_before_first", lambda x: x[:, -7:-3], randn(2, 5, 4)),
    op("slice_copy/step_from_before_first", lambda x: x[:, -7:4:2], randn(2, 5, 4)),
    op("slice_copy/channels_last", lambda x: x[:, 1:3], randn(2, 4, 3, 5).channels_last()),
    op("slice_copy/int32", lambda x: x[1:, ::2], ints(-99, 99, 3, 6, dtype=_I32)),
    op("select_copy/first_dim", lambda x: x[2], randn(4, 5)),
    op("select_copy/negative_index", lambda x: x.select(-1, -2), randn(3, 4, 5)),
    op("select_copy/to_scalar", lambda x: x[3], randn(7)),
    op("cat/dim0", lambda a, b: torch.cat([a, b]), randn(2, 5), randn(3, 5)),
    op("cat/negative_dim_three", lambda a, b, c: torch.cat([a, b, c], -1), randn(2, 3),
       randn(2, 1), randn(2, 4)),
    op("cat/with_empty", lambda a, b: torch.cat([a, b], 1), randn(2, 3), randn(2, 0)),
    # Quantizers expect a float input where the result is one.
    replace(op("cat/empty_decides_dtype", lambda a: torch.cat([torch.zeros(0), a]),
               ints(-9, 9, 6)), targets="portable:*|xnnpack:fp32|mlx:fp32"),
    op("cat/same_tensor_twice", lambda a: torch.cat([a, a], 1), randn(2, 3, 4)),
    op("cat/int64", lambda a, b: torch.cat([a, b], 1), ints(-9, 9, 2, 3), ints(-9, 9, 2, 4)),
    op("cat/uint8", lambda a, b: torch.cat([a, b]), ints(0, 256, 3, dtype=_U8),
       ints(0, 256, 4, dtype=_U8)),
    op("cat/promotes", lambda a, b: torch.cat([a, b]), randn(3), ints(-9, 9, 4, dtype=_I32)),
    op("cat/channels_last", lambda a, b: torch.cat([a, b], 1),
       randn(2, 3, 4, 5).channels_last(), randn(2, 2, 4, 5).channels_last()),
    # XNNPACK's observers of a cat take no integers.
    replace(op("cat/large_int32", lambda a, b: torch.cat([a, b]), values(_LARGE, 4, dtype=_I32),
               ints(-9, 9, 3, dtype=_I32)), targets=FLOATS_AND_TOSA),
    op("stack/dim0", lambda a, b: torch.stack([a, b]), randn(3, 5), randn(3, 5)),
    op("stack/last_dim", lambda a, b: torch.stack([a, b], -1), randn(3, 5), randn(3, 5)),
    op("split_with_sizes_copy/even", lambda x: torch.split(x, 2, 1), randn(3, 6)),
    op("split_with_sizes_copy/uneven_remainder", lambda x: torch.split(x, 3), randn(7, 2)),
    op("split_with_sizes_copy/sizes", lambda x: torch.split(x, [1, 4, 2], -1), randn(2, 3, 7)),
    op("split_with_sizes_copy/chunk", lambda x: torch.chunk(x, 3, 0), randn(8, 2)),
    op("split_with_sizes_copy/part_used", lambda x: torch.split(x, [2, 4], 1)[1] * 2, randn(3, 6)),
    op("unbind_copy/dim1", lambda x: torch.unbind(x, 1), randn(4, 3, 2)),
    op("flip/one_dim", torch.flip, randn(3, 5), dims=(1,)),
    op("flip/negative_dims", torch.flip, randn(2, 3, 4), dims=(0, -1)),
    op("flip/int64", torch.flip, ints(-99, 99, 3, 5), dims=(0,)),
    op("roll/dim", torch.roll, randn(3, 5), shifts=2, dims=1),
    op("constant_pad_nd/last_dim", F.pad, randn(3, 5), pad=(2, 1)),
    op("constant_pad_nd/value", F.pad, randn(2, 3, 4), pad=(1, 2, 0, 3), value=-1.5),
    op("constant_pad_nd/negative_crops", F.pad, randn(3, 6), pad=(-1, 2)),
    op("constant_pad_nd/channels_last", F.pad, randn(1, 3, 4, 5).channels_last(),
       pad=(1, 0, 2, 1)),
    op("constant_pad_nd/int32", F.pad, ints(-9, 9, 3, 5, dtype=_I32), pad=(1, 1), value=7),
    op("reflection_pad1d/asymmetric", F.pad, randn(2, 3, 6), pad=(3, 1), mode="reflect"),
    op("reflection_pad2d/asymmetric", F.pad, randn(1, 2, 5, 6), pad=(2, 1, 0, 3), mode="reflect"),
    op("reflection_pad3d/asymmetric", F.pad, randn(1, 2, 3, 4, 5), pad=(2, 1, 0, 3, 1, 0),
       mode="reflect"),
    op("replication_pad3d/asymmetric", F.pad, randn(1, 2, 3, 4, 5), pad=(2, 1, 0, 3, 1, 0),
       mode="replicate"),
    op("replication_pad1d/asymmetric", F.pad, randn(2, 3, 6), pad=(3, 1), mode="replicate"),
    op("replication_pad2d/asymmetric", F.pad, randn(1, 2, 4, 5), pad=(2, 1, 0, 3),
       mode="replicate"),
    op("diagonal_copy/main", lambda x: x.diagonal(), randn(4, 6)),
    op("diagonal_copy/offset_dims", lambda x: x.diagonal(1, -2, -1), randn(2, 4, 5)),
    op("as_strided_copy/overlapping", lambda x: x.as_strided((3, 4), (2, 1), 1), randn(12)),
    op("unfold_copy/windows", lambda x: x.unfold(1, 3, 2), randn(2, 9)),
    op("tril/below", torch.tril, randn(4, 6), diagonal=-1),
    op("triu/above", torch.triu, randn(2, 5, 4), diagonal=1),
    op("movedim/fp16", torch.movedim, randn(2, 3, 4, dtype=_F16), source=0, destination=-1),
]

CASES = add_vacuous_reasons(
    CASES,
    {
        "expand_copy/scalar": "one element, repeated",
        "repeat/zero_times": "it has no elements",
        "slice_copy/to_empty": "it has no elements",
        "view_copy/empty": "it has no elements",
    },
)

CASES = take_turns(CASES)
