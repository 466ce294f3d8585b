"""Top-k: values of k, dimensions, dtypes, order and indices."""

from __future__ import annotations

from typing import Any

import torch

from harness import Case
from suites.build import Input, distinct, op
from suites.metal.only import on_metal


def _topk(name: str, x: Input, *args: Any, **options: Any) -> Case:
    return op(f"topk/{name}", lambda t: tuple(torch.topk(t, *args, **options)), x)


def _route(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and numbers of the experts of a token."""
    weights, experts = torch.topk(torch.softmax(x, -1), 2)
    return weights / weights.sum(-1, keepdim=True), experts


def _picked(x: torch.Tensor) -> torch.Tensor:
    return torch.gather(x * 2, 1, torch.topk(x, 3, 1).indices)


_X = distinct(3, 9)

CASES: list[Case] = on_metal(
    *(_topk(f"largest_{k}_of_9", _X, k) for k in (1, 2, 5, 9)),
    *(_topk(f"dim_{dim}_of_3", distinct(3, 5, 4), 2, dim) for dim in (0, 1, 2)),
    _topk("negative_dim", distinct(3, 5, 4), 2, -2),
    _topk("smallest_of_rows", _X, 3, largest=False),
    _topk("smallest_along_columns", _X, 2, 0, largest=False),
    _topk("unsorted_one", _X, 1, sorted=False),
    _topk("rank_1", distinct(9), 4),
    _topk("rank_4", distinct(2, 2, 3, 5), 2),
    _topk("more_than_16", distinct(2, 40), 20),
    _topk("long", distinct(2, 600, step=0.125), 5),
    _topk("int32", distinct(3, 9, step=1, offset=0, dtype=torch.int32), 2),
    op("topk/after_kernel", lambda x: tuple(torch.topk(x * 2, 3)), _X),
    op("topk/transposed_input", lambda x: tuple(torch.topk(x.t(), 2)), _X),
    op("topk/transposed_after_kernel", lambda x: tuple(torch.topk((x * 2).t(), 2)), _X),
    op("topk/channels_last", lambda x: tuple(torch.topk(x, 2, 1)),
       distinct(2, 4, 3, 5).channels_last()),
    op("topk/values_only", lambda x: torch.topk(x, 3).values + 1, _X),
    op("topk/indices_only", lambda x: torch.topk(x, 3).indices * 2, _X),
    op("topk/indices_gather", _picked, _X),
    op("topk/experts", _route, distinct(5, 8, step=0.25)),
    op("topk/twice", lambda x: torch.topk(torch.topk(x, 5).values, 2).values, _X),
)  # fmt: skip
