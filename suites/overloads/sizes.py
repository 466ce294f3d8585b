"""Sizes that depend on data: a number from a tensor as a size, and operators that count.

Each program has an operator behind the tensor of unknown size; a second call has another size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from harness import Case
from harness.model.registry import NIGHTLY
from suites.build import Input, full, op, randn

_ROWS = 6
_TARGETS = "xnnpack:fp32"
_PLAIN = {"slice_end": "xnnpack:fp32"}


def _count(n: torch.Tensor) -> Any:
    """The number in a tensor, as a size of at most ``_ROWS``."""
    count: Any = n.item()
    torch._check(count >= 1)
    torch._check(count <= _ROWS)
    return count


def _sized(function: Callable[[torch.Tensor, Any], Any]) -> Callable[..., Any]:
    return lambda x, n: function(x, _count(n))


_BY_NUMBER: dict[str, Callable[[torch.Tensor, Any], Any]] = {
    "slice_end": lambda x, n: x[:n] * 2,
    "slice_end_matmul": lambda x, n: torch.mm(x[:n], x.t()),
    "slice_end_sum": lambda x, n: x[:n].sum(0),
    "slice_columns_softmax": lambda x, n: x.t()[:, :n].softmax(-1),
    "slice_start": lambda x, n: x[n - 1 :].relu(),
    "narrow": lambda x, n: x.narrow(0, 0, n) + 1,
    "narrow_start": lambda x, n: x.narrow(0, n - 1, 1).exp(),
    "select": lambda x, n: torch.ops.aten.select.int(x, 0, n - 1).sigmoid(),
    "full": lambda x, n: x.new_full((n, 4), 1.5) + x[0],
    "zeros_cat": lambda x, n: torch.cat([x.new_zeros((n, 4)), x]),
    "arange": lambda x, n: torch.arange(n, dtype=torch.float32) * x[0, 0],
    "expand": lambda x, n: x[0].expand(n, 4) * 3,
    "repeat": lambda x, n: x[:1].repeat(n, 1).tanh(),
    "split": lambda x, n: torch.split(x, [n, _ROWS - n])[0] - 1,
    "mask_from_arange": lambda x, n: x.masked_fill((torch.arange(_ROWS) < n)[:, None], 0.0) + x,
    "scale": lambda x, n: x * n,
}
_BY_VALUES: dict[str, Callable[[torch.Tensor], Any]] = {
    "nonzero": lambda x: torch.nonzero(x > 0) + 1,
    "cat_nonzero": lambda x: torch.cat([torch.nonzero(x > 0), torch.ones(2, 2, dtype=torch.int64)]),
    "masked_select": lambda x: torch.masked_select(x, x > 0) * 2,
    "masked_select_sum": lambda x: torch.masked_select(x, x > 0).sum(),
    "index_by_mask": lambda x: x[x[:, 0] > 0] @ x.t(),
    "index_by_nonzero": lambda x: x[torch.nonzero(x[:, 0] > 0).squeeze(1)].relu(),
    "repeat_interleave": lambda x: x.repeat_interleave((x[:, 0] > 0).to(torch.int64) + 1, 0) * 2,
}


def _number(value: int) -> Input:
    return full(value, dtype=torch.int64)


def _cases() -> list[Case]:
    x = randn(_ROWS, 4)
    made = [
        op(f"sizes/{name}", _sized(function), x, _number(4), calls=[(x, _number(2))])
        for name, function in _BY_NUMBER.items()
    ]
    made += [
        op(f"sizes/{name}", function, x, calls=[(x,)]) for name, function in _BY_VALUES.items()
    ]
    found = []
    for case in made:
        plain = _PLAIN.get(case.name.partition("/")[2], "")
        tags = case.tags | {"overloads"} | (set() if plain else {NIGHTLY})
        found.append(replace(case, tags=tags, targets=_TARGETS, plain_targets=plain))
    return found


CASES: list[Case] = _cases()
