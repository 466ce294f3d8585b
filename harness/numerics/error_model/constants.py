"""Numbers of a program that its dtype does not hold: 0.1 is another one in float32.

A target rounds them once, when it is made or when it runs; or it computes with them as they are.
What that takes off a result shows where terms cancel: for x near 0.1 it is all that is left of
``x - 0.1``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "floor_divide", "fmod", "remainder"})
"""Operators that take numbers and jump."""

_OPERATORS = COMPARISONS | {
    "add", "sub", "rsub", "mul", "div", "pow", "clamp", "clamp_min", "clamp_max", "full",
    "full_like", "new_full", "fill", "scalar_tensor", "masked_fill", "where", "hardtanh",
    "threshold",
}  # fmt: skip

_KEYWORDS = frozenset({"other", "value", "fill_value", "min", "max"})


def rounded(
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dtype: torch.dtype,
    draw: Callable[[float, float], float],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of an operator with its numbers as a target may hold them.

    Args:
        name: of the operator, without overload.
        args: positional arguments.
        kwargs: others; a factor like ``alpha`` stays as it is.
        dtype: what the program's numbers are rounded to.
        draw: a number for one that the dtype does not hold and what that is rounded to.
    """
    if name not in _OPERATORS:
        return args, kwargs

    def one(item: Any) -> Any:
        if type(item) is not float or not math.isfinite(item):
            return item
        held = torch.tensor(item, dtype=dtype).item()
        return draw(item, held) if held != item and math.isfinite(held) else item

    return tuple(map(one, args)), {
        key: one(item) if key in _KEYWORDS else item for key, item in kwargs.items()
    }
