"""Operations that change the shape of a tensor but no element.

Definitions: docstrings in coremltools ``mil/ops/defs/iOS15/tensor_transformation.py`` and
``tensor_operation.py``, and their iOS 16 and 17 versions. Results are exact.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from backends.coreml.kernels.base import (
    Scalar,
    check_allocation,
    move_elements,
    normalize_axis,
    register_kernel,
    to_flags,
    to_int,
    to_ints,
    to_tensor,
)
from harness import ProgramError

_Number = torch.Tensor | Scalar


@register_kernel("shape")
def shape(x: _Number) -> torch.Tensor:
    """Return the sizes as an int32 vector."""
    return torch.tensor(list(to_tensor(x).shape), dtype=torch.int32)


@register_kernel("reshape")
def reshape(x: _Number, shape: Any) -> torch.Tensor:
    """Reshape; -1 is the remaining size.

    A size of 0 stands for the size of ``x`` at this place counted from the last axis, or 1 if
    ``x`` has no such axis (iOS 17). This includes the rule of iOS 15, where ranks are equal.
    """
    value, sizes = to_tensor(x), to_ints(shape)
    shift = value.dim() - len(sizes)
    resolved = [
        size if size else (value.shape[axis + shift] if axis + shift >= 0 else 1)
        for axis, size in enumerate(sizes)
    ]
    return value.reshape(resolved)


@register_kernel("reshape_like")
def reshape_like(
    x: torch.Tensor,
    ref_tensors: list[torch.Tensor],
    begins: Any,
    ends: Any,
    end_masks: Any,
) -> torch.Tensor:
    """Reshape to sizes of other tensors, joined."""
    first, last = to_ints(begins), to_ints(ends)
    masks = to_flags(end_masks, len(ref_tensors))
    sizes: list[int] = []
    for tensor, begin, end, mask in zip(ref_tensors, first, last, masks, strict=True):
        sizes += tensor.shape[begin:] if mask else tensor.shape[begin:end]
    return x.reshape(sizes)


@register_kernel("expand_dims")
def expand_dims(x: _Number, axes: Any) -> torch.Tensor:
    """Insert axes of size 1; negative axes count from the end of the result."""
    value, numbers = to_tensor(x), to_ints(axes)
    rank = value.dim() + len(numbers)
    inserted = {normalize_axis(axis, rank) for axis in numbers}
    if len(inserted) < len(numbers):
        raise ProgramError(f"axes {numbers} repeat an axis")
    sizes = iter(value.shape)
    return value.reshape([1 if axis in inserted else next(sizes) for axis in range(rank)])


@register_kernel("squeeze")
def squeeze(x: torch.Tensor, axes: Any = None) -> torch.Tensor:
    """Remove axes of size 1; other sizes among ``axes`` remain, as in torch."""
    if axes is None:
        return x.squeeze()
    numbers = {normalize_axis(axis, x.dim()) for axis in to_ints(axes)}
    return x.squeeze(tuple(numbers)) if numbers else x


@register_kernel("transpose")
def transpose(x: _Number, perm: Any) -> torch.Tensor:
    """Permute the axes."""
    return to_tensor(x).permute(to_ints(perm))


@register_kernel("flatten2d")
def flatten2d(x: torch.Tensor, axis: _Number = 1) -> torch.Tensor:
    """Join the axes before ``axis``, and those from it on."""
    number = to_int(axis)
    if not -x.dim() <= number <= x.dim():
        raise ProgramError(f"axis {number} is out of range for {x.dim()} dimensions")
    return x.reshape(math.prod(x.shape[:number]), math.prod(x.shape[number:]))


@register_kernel("tile")
def tile(x: torch.Tensor, reps: Any) -> torch.Tensor:
    """Repeat along each axis."""
    counts = to_ints(reps)
    if len(counts) != x.dim() or any(count < 1 for count in counts):
        raise ProgramError(f"reps {counts} for a tensor of {x.dim()} dimensions")
    check_allocation([n * count for n, count in zip(x.shape, counts, strict=True)], x.dtype)
    return move_elements(torch.tile, x, dims=tuple(counts))


@register_kernel("concat")
def concat(values: list[torch.Tensor], axis: _Number, interleave: bool = False) -> torch.Tensor:
    """Concatenate; tensors of rank 0 make a vector. Interleaved, elements alternate."""
    tensors = [to_tensor(value) for value in values]
    if not tensors:
        raise ProgramError("concat of no tensors")
    check_same_dtype(tensors)
    if all(tensor.dim() == 0 for tensor in tensors):
        return move_elements(_stack, *tensors, axis=0)
    number = normalize_axis(axis, tensors[0].dim())
    if interleave:
        return move_elements(_stack, *tensors, axis=number + 1).flatten(number, number + 1)
    if any(tensor.dim() != tensors[0].dim() for tensor in tensors):
        raise ProgramError(f"ranks {[tensor.dim() for tensor in tensors]} differ")
    return move_elements(_concat, *tensors, axis=number)


def _concat(*tensors: torch.Tensor, axis: int) -> torch.Tensor:
    return torch.cat(tensors, axis)


def _stack(*tensors: torch.Tensor, axis: int) -> torch.Tensor:
    return torch.stack(tensors, axis)


def check_same_dtype(tensors: list[torch.Tensor]) -> None:
    """Require one dtype.

    Raises:
        ProgramError: the dtypes differ.
    """
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) > 1:
        raise ProgramError(f"dtypes {sorted(map(str, dtypes))} differ")


@register_kernel("stack")
def stack(values: list[torch.Tensor], axis: _Number) -> torch.Tensor:
    """Join tensors of one shape along a new axis."""
    tensors = [to_tensor(value) for value in values]
    if not tensors:
        raise ProgramError("stack of no tensors")
    check_same_dtype(tensors)
    return move_elements(_stack, *tensors, axis=normalize_axis(axis, tensors[0].dim() + 1))


@register_kernel("split")
def split(
    x: torch.Tensor,
    axis: _Number,
    num_splits: _Number | None = None,
    split_sizes: Any = None,
) -> list[torch.Tensor]:
    """Split into ``num_splits`` equal parts, or into parts of ``split_sizes``."""
    number = normalize_axis(axis, x.dim())
    length = x.shape[number]
    if split_sizes is not None:
        sizes = to_ints(split_sizes)
        if num_splits is not None and to_int(num_splits) != len(sizes):
            raise ProgramError(f"{to_int(num_splits)} splits of sizes {sizes}")
    else:
        if num_splits is None:
            raise ProgramError("split needs num_splits or split_sizes")
        count = to_int(num_splits)
        if count < 1 or length % count:
            raise ProgramError(f"cannot split {length} elements into {count} equal parts")
        sizes = [length // count] * count
    if any(size < 0 for size in sizes) or sum(sizes) != length:
        raise ProgramError(f"cannot split {length} elements into {sizes}")
    return list(torch.split(x, sizes, number))
