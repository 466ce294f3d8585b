"""Fills, ranges, one-hot vectors and padding.

Definitions: docstrings in coremltools ``mil/ops/defs/iOS15/tensor_operation.py`` and
``iOS16/tensor_operation.py``. Each result is checked against the host's memory first.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from backends.coreml.kernels.base import (
    Scalar,
    check_allocation,
    move_elements,
    normalize_axis,
    register_kernel,
    to_int,
    to_ints,
    to_number,
    to_tensor,
)
from harness import ProgramError

_Number = torch.Tensor | Scalar


def _fill(sizes: list[int], value: _Number) -> torch.Tensor:
    element = to_tensor(value).reshape([])
    check_allocation(sizes, element.dtype)
    return element.expand(sizes).clone()


@register_kernel("fill")
def fill(shape: Any, value: _Number = 0.0) -> torch.Tensor:
    """Create a tensor of one value; the value has the dtype of the result."""
    return _fill(to_ints(shape), value)


@register_kernel("fill_like")
def fill_like(ref_tensor: torch.Tensor, value: _Number = 0.0) -> torch.Tensor:
    """Create a tensor of one value in the shape of another; the value has the result's dtype."""
    return _fill(list(ref_tensor.shape), value)


@register_kernel("range_1d")
def range_1d(end: _Number, start: _Number, step: _Number) -> torch.Tensor:
    """Create a range from ``start`` to before ``end``."""
    limits = [to_tensor(value) for value in (start, end, step)]
    dtype = limits[0].dtype
    for limit in limits[1:]:
        dtype = torch.promote_types(dtype, limit.dtype)
    first, last, by = (to_number(limit) for limit in limits)
    if by == 0 or not all(math.isfinite(number) for number in (first, last, by)):
        raise ProgramError(f"a range from {first} to {last} by {by}")
    count = max(math.ceil((last - first) / by), 0)
    check_allocation([count], dtype)
    if not count:
        return torch.empty(0, dtype=dtype)
    # The number of elements is exact for any sign of the step, which torch.arange rejects.
    return (first + torch.arange(count, dtype=_exact(dtype)) * by).to(dtype)


def _exact(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype.is_floating_point else torch.int64


@register_kernel("one_hot")
def one_hot(
    indices: torch.Tensor | Scalar,
    one_hot_vector_size: _Number,
    axis: _Number = -1,
    on_value: _Number = 1,
    off_value: _Number = 0,
) -> torch.Tensor:
    """Insert an axis with ``on_value`` at the index and ``off_value`` elsewhere.

    An index outside of the vector gives ``off_value`` alone.
    """
    places = to_tensor(indices).to(torch.int64)
    size = to_int(one_hot_vector_size)
    on, off = to_tensor(on_value).reshape([]), to_tensor(off_value).reshape([])
    dtype = torch.promote_types(on.dtype, off.dtype)
    number = normalize_axis(axis, places.dim() + 1)
    check_allocation([*places.shape, size], torch.int64)
    hits = (places.unsqueeze(-1) == torch.arange(size)).movedim(-1, number)
    return torch.where(hits, on.to(dtype), off.to(dtype))


@register_kernel("pad")
def pad(
    x: torch.Tensor, pad: Any, mode: str = "constant", constant_val: _Number = 0.0
) -> torch.Tensor:
    """Pad the last axes: ``pad`` has numbers before and after each of them, in their order.

    Modes are ``constant``, ``reflect`` (without the border, at most size - 1 elements) and
    ``replicate``.
    """
    numbers = to_ints(pad)
    count = len(numbers) // 2
    if len(numbers) % 2 or count > x.dim() or any(number < 0 for number in numbers):
        raise ProgramError(f"pad {numbers} for a tensor of {x.dim()} dimensions")
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    sizes = list(x.shape)
    for axis, pair in enumerate(pairs, x.dim() - count):
        sizes[axis] += sum(pair)
    check_allocation(sizes, x.dtype)
    if mode == "constant":
        flat = [number for pair in reversed(pairs) for number in pair]
        return functional.pad(x, flat, value=float(to_number(constant_val)))
    if mode not in ("reflect", "replicate"):
        raise ProgramError(f"unknown mode {mode!r}")
    result = x
    for axis, (before, after) in enumerate(pairs, x.dim() - count):
        if before or after:
            places = _border_places(x.shape[axis], before, after, mode)
            result = move_elements(_select, result, axis=axis, places=places)
    return result


def _border_places(size: int, before: int, after: int, mode: str) -> torch.Tensor:
    """Return the source of each element of a padded axis."""
    places = torch.arange(-before, size + after)
    if mode == "replicate":
        if not size:
            raise ProgramError("cannot replicate the border of an empty axis")
        return places.clamp(0, size - 1)
    if max(before, after) > size - 1:
        raise ProgramError(f"cannot reflect {max(before, after)} elements of an axis of {size}")
    return size - 1 - (size - 1 - places.abs()).abs()


def _select(x: torch.Tensor, *, axis: int, places: torch.Tensor) -> torch.Tensor:
    return torch.index_select(x, axis, places)
