"""Results that nothing has to round, such as positions that are counted in floats.

Without them, noise on ``arange(n) / 2`` takes its ``floor`` to the number below, and the bound of
an embedding of positions is as wide as the embedding.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from harness.model.trees import leaves
from harness.numerics.error_model.rounding import CORRECTLY_ROUNDED

_SAMPLE = 1024
# Normal numbers of every dtype that a program may have: float16 has the fewest.
_LEAST, _MOST = 2.0**-14, 2.0**15


def is_held(name: str, args: tuple[Any, ...], out: Any, unit: float) -> bool:
    """Whether a result of exact arguments is exact on every target: the operation rounds
    correctly, and the dtype holds all of its elements as they are. A division does where targets
    that multiply by the reciprocal do, by a power of two.

    Args:
        name: of the operation.
        args: its arguments, the same in all runs.
        out: what float64 makes of them.
        unit: half of the spacing of the coarsest dtype above 1; its digits are what is held.
    """
    if name not in CORRECTLY_ROUNDED and not (name == "div" and _is_power_of_two(args)):
        return False
    if not unit:
        return False
    digits = 1 / unit
    return all(
        _held(item.flatten()[:_SAMPLE], digits) and _held(item, digits)
        for item in leaves(out)
        if isinstance(item, torch.Tensor) and item.is_floating_point()
    )


def _held(values: torch.Tensor, digits: float) -> bool:
    if values.numel() == 0:
        return True
    mantissa = torch.frexp(values).mantissa * digits
    size = values.abs()
    inside = (size >= _LEAST) & (size <= _MOST) | (size == 0)
    return bool(((mantissa == mantissa.round()) & inside).all())


def _is_power_of_two(args: tuple[Any, ...]) -> bool:
    divisor = args[1]
    if isinstance(divisor, torch.Tensor):
        if divisor.numel() != 1 or not divisor.is_floating_point():
            return False
        divisor = divisor.item()
    return bool(divisor) and math.isfinite(divisor) and abs(math.frexp(divisor)[0]) == 0.5
