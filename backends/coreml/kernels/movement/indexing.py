"""Gathers and slices.

Definitions: docstrings in coremltools ``mil/ops/defs/iOS15..17/scatter_gather.py`` and
``tensor_transformation.py``. Results are exact.

Since iOS 17 gathers and scatters have ``validate_indices``, and a negative index is out of range;
without this input the rules of iOS 15 and 16 hold, in which it counts from the end. The result
for an index out of range is not defined without validation, so it is always rejected.
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


def resolve_indices(
    indices: torch.Tensor | Scalar, size: int, validate: bool | None
) -> torch.Tensor:
    """Return indices as int64 from 0 to ``size - 1``.

    Args:
        indices: indices of any shape.
        size: size of the indexed axis.
        validate: value of ``validate_indices``; None without this input, where negative indices
            count from the end.

    Raises:
        ProgramError: an index is out of range, or the dtype is wrong.
    """
    places = to_tensor(indices)
    if places.is_floating_point() or places.dtype == torch.bool:
        raise ProgramError(f"indices are {places.dtype}, expected integers")
    places = places.to(torch.int64)
    if not places.numel():
        return places
    least, most = int(places.min()), int(places.max())
    if least < (-size if validate is None else 0) or most >= size:
        wrong = most if most >= size else least
        raise ProgramError(f"index {wrong} is out of range for an axis of size {size}")
    return torch.where(places < 0, places + size, places) if least < 0 else places


def _index_select(x: torch.Tensor, *, axis: int, places: torch.Tensor) -> torch.Tensor:
    return torch.index_select(x, axis, places)


def _gather_elements(x: torch.Tensor, *, axis: int, places: torch.Tensor) -> torch.Tensor:
    return torch.gather(x, axis, places)


@register_kernel("gather")
def gather(
    x: torch.Tensor,
    indices: torch.Tensor | Scalar,
    axis: _Number = 0,
    batch_dims: _Number = 0,
    validate_indices: bool | None = None,
) -> torch.Tensor:
    """Take slices along an axis, with the first ``batch_dims`` axes in common."""
    number, batch = normalize_axis(axis, x.dim()), to_int(batch_dims)
    places = resolve_indices(indices, x.shape[number], validate_indices)
    if not 0 <= batch <= min(number, places.dim()) or x.shape[:batch] != places.shape[:batch]:
        raise ProgramError(f"batch_dims {batch} for axis {number}, shapes {list(x.shape)} and "
                           f"{list(places.shape)}")  # fmt: skip
    shape = [*x.shape[:number], *places.shape[batch:], *x.shape[number + 1 :]]
    check_allocation(shape, x.dtype)
    if not batch:
        taken = move_elements(_index_select, x, axis=number, places=places.reshape(-1))
        return taken.reshape(shape)
    count, middle = math.prod(x.shape[:batch]), math.prod(x.shape[batch:number])
    last = math.prod(x.shape[number + 1 :])
    wide = places.reshape(count, 1, -1, 1)
    wide = wide.expand(count, middle, wide.shape[2], last)
    flat = x.reshape(count, middle, x.shape[number], last)
    return move_elements(_gather_elements, flat, axis=2, places=wide).reshape(shape)


@register_kernel("gather_along_axis")
def gather_along_axis(
    x: torch.Tensor,
    indices: torch.Tensor,
    axis: _Number = 0,
    validate_indices: bool | None = None,
) -> torch.Tensor:
    """Take elements along an axis; the sizes of other axes are equal."""
    number = normalize_axis(axis, x.dim())
    check_same_sizes(x, indices, number)
    places = resolve_indices(indices, x.shape[number], validate_indices)
    return move_elements(_gather_elements, x, axis=number, places=places)


def check_same_sizes(x: torch.Tensor, indices: torch.Tensor, axis: int) -> None:
    """Require the sizes of two tensors to be equal except at one axis.

    Raises:
        ProgramError: they are not.
    """
    pairs = list(zip(x.shape, indices.shape, strict=False))
    if x.dim() != indices.dim() or any(n != m for i, (n, m) in enumerate(pairs) if i != axis):
        raise ProgramError(f"indices {list(indices.shape)} for {list(x.shape)} along axis {axis}")


def resolve_places(
    indices: torch.Tensor, shape: torch.Size, validate: bool | None
) -> list[torch.Tensor]:
    """Return an index tensor for each of the first axes; they are the last axis of ``indices``.

    Raises:
        ProgramError: an index is out of range, or there are more of them than axes.
    """
    if not indices.dim() or not 1 <= indices.shape[-1] <= len(shape):
        raise ProgramError(f"indices {list(indices.shape)} for a tensor {list(shape)}")
    return [
        resolve_indices(column, size, validate)
        for column, size in zip(indices.unbind(-1), shape, strict=False)
    ]


@register_kernel("gather_nd")
def gather_nd(
    x: torch.Tensor,
    indices: torch.Tensor,
    batch_dims: _Number = 0,
    validate_indices: bool | None = None,
) -> torch.Tensor:
    """Take slices at positions in the last axis of ``indices``, after common batch axes."""
    batch = to_int(batch_dims)
    if not 0 <= batch < min(indices.dim(), x.dim()) or x.shape[:batch] != indices.shape[:batch]:
        raise ProgramError(f"batch_dims {batch} for {list(x.shape)} and {list(indices.shape)}")
    columns = resolve_places(indices, x.shape[batch:], validate_indices)
    shape = [*indices.shape[:-1], *x.shape[batch + len(columns) :]]
    check_allocation(shape, x.dtype)
    flat = x.reshape(-1, *x.shape[batch:]) if batch else x.unsqueeze(0)
    first = torch.arange(flat.shape[0]).unsqueeze(-1)
    places = [first, *(column.reshape(flat.shape[0], -1) for column in columns)]
    return move_elements(_index, flat, places=places).reshape(shape)


def _index(x: torch.Tensor, *, places: list[torch.Tensor]) -> torch.Tensor:
    return x[tuple(places)]


class Slices:
    """Ranges of ``slice_by_index`` and ``slice_update``, with numpy's rules.

    Attributes:
        ranges: the indices along each axis.
        squeezed: axes that the result lacks.
    """

    def __init__(self, shape: torch.Size, begin: Any, end: Any, **options: Any) -> None:
        rank = len(shape)
        starts, stops = to_ints(begin), to_ints(end)
        stride = options.get("stride")
        steps = [1] * rank if stride is None else to_ints(stride)
        if not len(starts) == len(stops) == len(steps) == rank:
            raise ProgramError(f"begin {starts}, end {stops}, stride {steps} for {rank} axes")
        masks = [options.get(name) for name in ("begin_mask", "end_mask", "squeeze_mask")]
        no_begin, no_end, squeeze = (to_flags(mask, rank) for mask in masks)
        self.squeezed = [axis for axis in range(rank) if squeeze[axis]]
        self.ranges = []
        for axis, size in enumerate(shape):
            # As in numpy, a masked begin of a negative stride is the end of the axis.
            first = None if no_begin[axis] else starts[axis]
            if squeeze[axis]:
                place = normalize_axis(first or 0, size)
                self.ranges.append(range(place, place + 1))
                continue
            last = None if no_end[axis] else stops[axis]
            self.ranges.append(range(*slice(first, last, steps[axis]).indices(size)))

    def take(self, x: torch.Tensor) -> torch.Tensor:
        """Return the slice, with axes of size 1 for squeezed ones."""
        for axis, kept in enumerate(self.ranges):
            if kept.step > 0:
                index = (slice(None),) * axis + (slice(kept.start, kept.stop, kept.step),)
                x = x[index]
            else:
                x = move_elements(_index_select, x, axis=axis, places=torch.tensor(list(kept)))
        return x

    def squeeze_axes(self, x: torch.Tensor) -> torch.Tensor:
        """Remove the squeezed axes."""
        return x.squeeze(tuple(self.squeezed)) if self.squeezed else x


@register_kernel("slice_by_index")
def slice_by_index(x: torch.Tensor, begin: Any, end: Any, **options: Any) -> torch.Tensor:
    """Slice as ``x[begin:end:stride]`` of numpy.

    Args:
        x: the tensor.
        begin: first index for each axis.
        end: index after the last for each axis.
        **options: ``stride``, ``begin_mask`` and ``end_mask`` (ignore the index), ``squeeze_mask``
            (take the element at ``begin`` and remove the axis).
    """
    check_options(options)
    slices = Slices(x.shape, begin, end, **options)
    return slices.squeeze_axes(slices.take(x))


def check_options(options: dict[str, Any]) -> None:
    """Reject options that a slice does not have.

    Raises:
        ProgramError: an option is unknown.
    """
    unknown = options.keys() - {"stride", "begin_mask", "end_mask", "squeeze_mask"}
    if unknown:
        raise ProgramError(f"unknown inputs {', '.join(sorted(unknown))}")


@register_kernel("slice_by_size")
def slice_by_size(x: torch.Tensor, begin: Any, size: Any) -> torch.Tensor:
    """Take ``size`` elements from ``begin`` on along each axis; -1: all that remain."""
    starts, counts = to_ints(begin), to_ints(size)
    if not len(starts) == len(counts) == x.dim():
        raise ProgramError(f"begin {starts} and size {counts} for {x.dim()} axes")
    for axis, (start, count) in enumerate(zip(starts, counts, strict=True)):
        length = x.shape[axis]
        first = start + length if start < 0 else start
        last = length if count == -1 else first + count
        if not 0 <= first <= last <= length:
            raise ProgramError(f"{count} elements from {start} on, of an axis of size {length}")
        x = x.narrow(axis, first, last - first)
    return x
