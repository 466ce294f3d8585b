"""Compare two values, bit by bit or within a bound."""

from __future__ import annotations

from typing import Any

import torch

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def describe_difference(one: Any, other: Any, bound: torch.Tensor | None = None) -> str | None:
    """Describe how a value differs from its previous value; None where it does not.

    Args:
        one: the previous value.
        other: the value. Zeros of different sign differ, all NaNs are equal.
        bound: largest accepted difference of each element; None compares bits.
    """
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return None if one is other or one == other else f"is {other!r}, was {one!r}"
    if one.dtype != other.dtype or one.shape != other.shape:
        return f"is {_describe_type(other)}, was {_describe_type(one)}"
    if one.dim_order() != other.dim_order():
        return f"has dim order {other.dim_order()}, had {one.dim_order()}"
    differs = _to_bits(one) != _to_bits(other)
    if bound is not None:
        differs &= ~((one.double() - other.double()).abs() <= bound)
    if not differs.any():
        return None
    at = tuple(int(index) for index in differs.nonzero()[0])
    return (
        f"differs in {int(differs.sum())} of {one.numel()} elements, first at {list(at)}: "
        f"{other[at].item()}, was {one[at].item()}"
    )


def _describe_type(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _to_bits(tensor: torch.Tensor) -> torch.Tensor:
    """View a tensor as integers, with one bit pattern for NaN."""
    if tensor.is_complex():
        return _to_bits(torch.view_as_real(tensor)).sum(-1)
    if not tensor.is_floating_point():
        return tensor
    number = torch.full_like(tensor, torch.nan)
    canonical = torch.where(tensor.isnan(), number, tensor)
    return canonical.contiguous().view(_INTEGERS[tensor.dtype.itemsize])
