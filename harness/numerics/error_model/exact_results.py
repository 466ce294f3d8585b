"""Find results that are exact on every target, such as positions counted in floats.

Without this, a perturbation of ``arange(n) / 2`` takes its ``floor`` to the number below, and the
bound of a positional embedding is as wide as the embedding.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from harness.model.trees import leaves

_SAMPLE = 1024
# Magnitudes that are normal numbers in every dtype; float16 has the smallest range.
_SMALLEST, _LARGEST = 2.0**-14, 2.0**15


def is_representable(out: Any, unit: float) -> bool:
    """Whether a dtype can represent all elements of a result.

    Every target computes such a result of exact arguments without error if the operation rounds
    correctly.

    Args:
        out: a result in float64.
        unit: unit roundoff of the coarsest dtype.
    """
    if not unit:
        return False
    digits = 1 / unit
    return all(
        _can_represent(item.flatten()[:_SAMPLE], digits) and _can_represent(item, digits)
        for item in leaves(out)
        if isinstance(item, torch.Tensor) and item.is_floating_point()
    )


def _can_represent(values: torch.Tensor, digits: float) -> bool:
    if values.numel() == 0:
        return True
    mantissa = torch.frexp(values).mantissa * digits
    size = values.abs()
    is_in_range = (size >= _SMALLEST) & (size <= _LARGEST) | (size == 0)
    return bool(((mantissa == mantissa.round()) & is_in_range).all())


def has_power_of_two(args: tuple[Any, ...]) -> bool:
    """Whether a division is by a power of two: there, targets that multiply by the reciprocal are
    exact, too."""
    divisor = args[1]
    if isinstance(divisor, torch.Tensor):
        if divisor.numel() != 1 or not divisor.is_floating_point():
            return False
        divisor = divisor.item()
    return bool(divisor) and math.isfinite(divisor) and abs(math.frexp(divisor)[0]) == 0.5
