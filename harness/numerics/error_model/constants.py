"""Round the Python constants of a program as a target may: float32 has no exact 0.1.

A target rounds a constant once, at compile time or at run time, or computes with the exact value.
The difference dominates a result where terms cancel: for x near 0.1, the result of ``x - 0.1``
consists of it.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import Any

import torch

from harness.numerics.error_model.terms import Args, Kwargs


class ConstantRounding(enum.Enum):
    """Which value an operator takes for a constant that its dtype cannot represent."""

    DRAWN = enum.auto()
    """Any value between the constant and its rounded value."""
    COMPARED = enum.auto()
    """One of both: the operator is discontinuous."""


_KEYWORDS = frozenset({"other", "value", "fill_value", "min", "max"})


def round_constants(
    args: Args,
    kwargs: Kwargs,
    dtype: torch.dtype,
    draw: Callable[[float, float], float],
) -> tuple[Args, Kwargs]:
    """Return the arguments of an operator with its constants as a target may round them.

    Args:
        args: positional arguments.
        kwargs: keyword arguments. Factors such as ``alpha`` stay as they are.
        dtype: dtype that the program's constants are rounded to.
        draw: called with a constant that the dtype cannot represent and with its rounded value;
            returns the constant to compute with.
    """

    def round_constant(item: Any) -> Any:
        if type(item) is not float or not math.isfinite(item):
            return item
        nearest = torch.tensor(item, dtype=dtype).item()
        return draw(item, nearest) if nearest != item and math.isfinite(nearest) else item

    return tuple(map(round_constant, args)), {
        key: round_constant(item) if key in _KEYWORDS else item for key, item in kwargs.items()
    }
