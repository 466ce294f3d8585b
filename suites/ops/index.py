"""Gathering and scattering by index, and embeddings."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from harness import Case
from suites.build import (
    FLOATS_AND_TOSA,
    Input,
    add_vacuous_reasons,
    bools,
    distinct,
    ints,
    nn_case,
    op,
    randn,
    values,
)
from suites.selection import take_turns

_I32, _I64 = torch.int32, torch.int64
_ALL = slice(None)


def _order(*shape: int) -> Input:
    """A permutation of 0, 1, ..., so that no two writes have the same index."""
    count = math.prod(shape)
    return distinct(*shape, step=1.0, offset=float(count // 2), dtype=_I64)


def _store(x: torch.Tensor, value: torch.Tensor | float, index: Any) -> torch.Tensor:
    copy = x.clone()
    copy[index] = value
    return copy


class _Put(torch.nn.Module):
    """Stores values at the indices that the module has, behind some whole dimensions."""

    def __init__(self, *indices: list[int], behind: int = 0) -> None:
        super().__init__()
        for place, index in enumerate(indices):
            self.register_buffer(f"index{place}", torch.tensor(index))
        self.behind = behind

    def forward(self, x: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return _store(x, value, (*(_ALL,) * self.behind, *self.buffers()))


CASES: list[Case] = [
    op("gather/dim0", lambda x, i: x.gather(0, i), randn(5, 4), ints(0, 5, 3, 4)),
    op("gather/negative_dim", lambda x, i: x.gather(-1, i), randn(2, 3, 6), ints(0, 6, 2, 3, 4)),
    op("gather/smaller_index", lambda x, i: x.gather(1, i), randn(5, 4), ints(0, 4, 2, 3)),
    op("gather/int64", lambda x, i: x.gather(1, i), ints(-99, 99, 3, 6), ints(0, 6, 3, 4)),
    op("index_select/dim0", lambda x, i: x.index_select(0, i), randn(5, 4), ints(0, 5, 7)),
    op("index_select/negative_dim", lambda x, i: x.index_select(-1, i), randn(2, 3, 6),
       ints(0, 6, 4)),
    op("index_select/int32_index", lambda x, i: x.index_select(1, i), randn(3, 5),
       ints(0, 5, 4, dtype=_I32)),
    op("index/first_dim", lambda x, i: x[i], randn(5, 4), ints(0, 5, 3)),
    op("index/negative_indices", lambda x, i: x[i], randn(5, 4), ints(-5, 0, 3)),
    op("index/last_dim", lambda x, i: x[:, :, i], randn(2, 3, 6), ints(0, 6, 4)),
    op("index/two_broadcast", lambda x, i, j: x[i, j], randn(5, 6), ints(0, 5, 3, 1),
       ints(0, 6, 4)),
    op("index/separated", lambda x, i, j: x[i, :, j], randn(4, 3, 5), ints(0, 4, 6),
       ints(0, 5, 6)),
    op("index/2d_index", lambda x, i: x[i], randn(7, 3), ints(0, 7, 2, 4)),
    op("index/constant_list_mid", lambda x: x[:, [-1], :], randn(2, 5, 4)),
    op("index/constant_mid", lambda x: x[:, torch.tensor([2, 0, 1, 1])], randn(2, 3, 4)),
    op("index/constant_last", lambda x: x[..., torch.tensor([3, 0, 2, 1])], randn(2, 3, 4)),
    op("index/constants_separated", lambda x: x[torch.tensor([1, 0]), :, torch.tensor([3, 2])],
       randn(2, 3, 4)),
    op("index_put/constant_mid", lambda x, v: _store(x, v, (slice(None), torch.tensor([2, 0]))),
       randn(2, 3, 4), randn(2, 2, 4)),
    op("cat/constant_second", lambda x: torch.cat([x, torch.tensor([[0.5, -2, 9]], dtype=x.dtype)]),
       randn(2, 3)),
    op("index_put/first_dim", lambda x, i, v: _store(x, v, i), randn(6, 4), _order(6), randn(6, 4)),
    op("index_put/broadcast_value", lambda x, i, v: _store(x, v, (slice(None), i)), randn(3, 5),
       values((0, 2, 4), 3, dtype=_I64), randn(1, 1)),
    op("index_put/accumulate", lambda x, i, v: x.index_put((i,), v, accumulate=True), randn(4, 3),
       ints(0, 4, 7), randn(7, 3)),
    op("index_put/bool_mask", lambda x, m: x.index_put((m,), torch.tensor(-1.5)), randn(3, 5),
       bools(3, 5)),
    # PyTorch keeps the dimensions of adjacent indices in place, and moves those of separated ones.
    nn_case("index_put/adjacent", lambda: _Put([0, 2, 1], [3, 0, 2], behind=1), randn(3, 3, 4),
            randn(3, 3)),
    # TOSA leaves the result undefined, so VGF may compute any.
    replace(
        nn_case("index_put/constant_negative", lambda: _Put([0, -1]), randn(4, 3), randn(2, 3)),
        targets=FLOATS_AND_TOSA,
    ),
    # CoreML and Metal refuse a mask behind a whole dimension.
    replace(
        op("index_put/mask_of_pixels", lambda x, m: _store(x, -1.5, (_ALL, m > 0)),
           randn(4, 4, 4), randn(4, 4)),
        targets="portable:*|xnnpack:fp32|tosa:fp|tosa:int|mlx:fp32",
    ),
    replace(
        op("index_put/mask_of_uneven_pixels", lambda x, m: _store(x, -1.5, (_ALL, m > 0)),
           randn(3, 5, 4), randn(5, 4)),
        targets="tosa:fp|tosa:int",
    ),
    op("scatter/dim0", lambda x, i, v: x.scatter(0, i, v), randn(6, 3),
       values((0, 2, 5), 3, 1, dtype=_I64), randn(3, 3)),
    op("scatter/number", lambda x, i: x.scatter(1, i, 2.5), randn(3, 6), ints(0, 6, 3, 2)),
    op("scatter/permutation_rows", lambda x, i, v: x.scatter(-1, i, v), randn(1, 7), _order(1, 7),
       randn(1, 7)),
    op("scatter_add/repeated_indices", lambda x, i, v: x.scatter_add(0, i, v), randn(3, 5),
       ints(0, 3, 8, 5), randn(8, 5)),
    op("scatter_add/dim1_int64", lambda x, i, v: x.scatter_add(1, i, v), ints(-9, 9, 3, 5),
       ints(0, 5, 3, 7), ints(-9, 9, 3, 7)),
    op("scatter_reduce/amax", lambda x, i, v: x.scatter_reduce(0, i, v, "amax"), distinct(3, 4),
       ints(0, 3, 6, 4), distinct(6, 4)),
    op("scatter_reduce/mean", lambda x, i, v: x.scatter_reduce(0, i, v, "mean"), randn(3, 4),
       ints(0, 3, 6, 4), randn(6, 4)),
    op("select_scatter/negative_index", torch.select_scatter, randn(3, 4, 5), randn(3, 5), dim=1,
       index=-1),
    op("slice_scatter/step", torch.slice_scatter, randn(8, 3), randn(3, 3), dim=0, start=1, end=7,
       step=2),
    op("slice_scatter/last_dim", torch.slice_scatter, randn(3, 8), randn(3, 4), dim=-1, start=-4),
    op("masked_scatter/fp32", torch.masked_scatter, randn(3, 5), bools(3, 5), randn(15)),
    op("index_add/dim0", lambda x, i, v: x.index_add(0, i, v), randn(4, 3), ints(0, 4, 6),
       randn(6, 3)),
    nn_case("embedding/2d_tokens", lambda: torch.nn.Embedding(11, 6), ints(0, 11, 2, 5)),
    nn_case("embedding/padding_index", lambda: torch.nn.Embedding(11, 6, padding_idx=3),
            ints(0, 11, 9)),
    nn_case("embedding/int32_tokens", lambda: torch.nn.Embedding(11, 6),
            ints(0, 11, 7, dtype=_I32)),
    nn_case("embedding/one_token", lambda: torch.nn.Embedding(11, 6), ints(0, 11)),
    nn_case("embedding/empty", lambda: torch.nn.Embedding(11, 6), ints(0, 11, 2, 0)),
    nn_case("_embedding_bag/mean", lambda: torch.nn.EmbeddingBag(11, 6, mode="mean"),
            ints(0, 11, 3, 4)),
    op("one_hot/classes", F.one_hot, ints(0, 5, 2, 3), num_classes=5),
    op("nonzero/2d", torch.nonzero, values((0.0, 0.0, 1.5, -2.0), 3, 4)),
    op("nonzero/masked_select", torch.masked_select, randn(3, 5), bools(3, 5)),
    op("searchsorted/between", lambda x: torch.searchsorted(torch.arange(-1.0, 3.0), x),
       distinct(3, 5)),
]

CASES = add_vacuous_reasons(
    CASES,
    {
        "embedding/empty": "it has no elements",
    },
)

CASES = take_turns(CASES)
