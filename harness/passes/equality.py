"""Whether two values are the same, in every bit or within a bound."""

from __future__ import annotations

from typing import Any

import torch

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def unequal(one: Any, other: Any, bound: torch.Tensor | None = None) -> str | None:
    """How a value differs from what it was, or None.

    Args:
        one: what it was.
        other: what it is. Zeros of two signs are two values, all that are no numbers are one.
        bound: how far each element may be from what it was; in no bit without one.
    """
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return None if one is other or one == other else f"is {other!r}, was {one!r}"
    if one.dtype != other.dtype or one.shape != other.shape:
        return f"is {_form(other)}, was {_form(one)}"
    if one.dim_order() != other.dim_order():
        return f"has dim order {other.dim_order()}, had {one.dim_order()}"
    far = _bits(one) != _bits(other)
    if bound is not None:
        far &= ~((one.double() - other.double()).abs() <= bound)
    if not far.any():
        return None
    at = tuple(int(index) for index in far.nonzero()[0])
    return (
        f"differs in {int(far.sum())} of {one.numel()} elements, first at {list(at)}: "
        f"{other[at].item()}, was {one[at].item()}"
    )


def _form(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as integers."""
    if tensor.is_complex():
        return _bits(torch.view_as_real(tensor)).sum(-1)
    if not tensor.is_floating_point():
        return tensor
    number = torch.full_like(tensor, torch.nan)
    canonical = torch.where(tensor.isnan(), number, tensor)
    return canonical.contiguous().view(_INTEGERS[tensor.dtype.itemsize])
