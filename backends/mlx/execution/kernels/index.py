"""Kernels that read and write by index; each index is checked, since MLX itself does not check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from backends.mlx.execution.kernels.base import (
    Builder,
    Step,
    check_indices,
    make_int_reader,
    normalize_axis,
)
from backends.mlx.payload.graph import Node, Tid
from harness import ProgramError


def take(node: Node) -> Step:
    """Take along one axis, by a number (removes the axis) or by an array of indices."""
    x, out, axis, index = node.x, node.out, node.axis, node.index
    if isinstance(index, Tid):

        def by_array(t: list[Any], v: list[Any]) -> None:
            source, indices = t[x], t[index]
            at = normalize_axis(axis, source.ndim)
            check_indices(indices, source.shape[at])
            t[out] = mx.take(source, indices, at)

        return by_array
    number = make_int_reader(index)

    def step(t: list[Any], v: list[Any]) -> None:
        source = t[x]
        at = normalize_axis(axis, source.ndim)
        t[out] = mx.take(source, normalize_axis(number(v), source.shape[at]), at)

    return step


def take_along_axis(node: Node) -> Step:
    """Take elements along one axis."""
    x, indices, out, axis = node.x, node.indices, node.out, node.axis

    def step(t: list[Any], v: list[Any]) -> None:
        source = t[x]
        check_indices(t[indices], source.shape[normalize_axis(axis, source.ndim)])
        t[out] = mx.take_along_axis(source, t[indices], axis)

    return step


def gather(node: Node) -> Step:
    """Take slices of ``slice_sizes`` that start at the index arrays.

    The result has the broadcast shape of the indices, then the slice sizes. ``mlx.core`` has
    ``gather`` in C++ only; indexing with an array for every axis is the same function.
    """
    x, indices, out = node.x, node.indices, node.out
    axes, sizes = node.axes, node.slice_sizes

    def step(t: list[Any], v: list[Any]) -> None:
        source = t[x]
        rank = source.ndim
        if len(sizes) != rank or len(indices) != len(axes):
            raise ProgramError(
                f"{len(indices)} index arrays for axes {axes}, slice sizes {sizes} for rank {rank}"
            )
        if len(set(axes)) != len(axes) or any(not 0 <= axis < rank for axis in axes):
            raise ProgramError(
                f"axes {axes} are not distinct, or out of range for a tensor of rank {rank}"
            )
        for size, whole in zip(sizes, source.shape, strict=True):
            if not 0 < size <= whole:
                raise ProgramError(f"slice sizes {sizes} do not fit shape {source.shape}")
        starts: dict[int, mx.array] = {}
        for slot, axis in zip(indices, axes, strict=True):
            starts[axis] = _from_front(t[slot], source.shape[axis])
            check_indices(mx.add(starts[axis], sizes[axis] - 1), source.shape[axis])
        t[out] = source[_window(starts, sizes)]

    return step


def _from_front(indices: mx.array, size: int) -> mx.array:
    """Check indices and return them as int64, with negative ones counted from the end."""
    check_indices(indices, size)
    wide = indices.astype(mx.int64)
    return mx.where(mx.less(wide, 0), mx.add(wide, size), wide)


def _window(starts: dict[int, mx.array], sizes: Sequence[int]) -> tuple[mx.array, ...]:
    """Return the indices of the window for each axis, shaped to broadcast with the index arrays."""
    rank = len(sizes)
    picked = []
    for axis, size in enumerate(sizes):
        within = mx.reshape(
            mx.arange(size, dtype=mx.int64), [size if i == axis else 1 for i in range(rank)]
        )
        start = starts.get(axis)
        if start is None:
            picked.append(within)
        else:
            picked.append(mx.add(mx.reshape(start, [*start.shape, *[1] * rank]), within))
    return tuple(picked)


def scatter_add(node: Node) -> Step:
    """Compute ``x[..., indices, ...] += updates`` along one axis; equal indices accumulate.

    As in ``scatter_axis`` of ``mlx/ops.cpp``, the three broadcast to each other but along the
    axis: where PyTorch reads a part of the updates and changes a part of ``x``, this fails, or
    changes more if that part has size 1.
    """
    x, indices, updates, out, axis = node.x, node.indices, node.updates, node.out, node.axis

    def step(t: list[Any], v: list[Any]) -> None:
        source, at, added = t[x], t[indices], t[updates]
        along = normalize_axis(axis, source.ndim)
        if at.ndim != source.ndim:
            raise ProgramError(f"indices of rank {at.ndim} for a tensor of rank {source.ndim}")
        if source.size == 0:
            t[out] = source
            return
        check_indices(at, source.shape[along])
        added = added.astype(source.dtype)
        if added.ndim > at.ndim:
            added = mx.squeeze(added, list(range(added.ndim - at.ndim)))
        source, at, added = _broadcast_beside(along, source, *mx.broadcast_arrays(at, added))
        where = [
            at
            if dim == along
            else mx.reshape(mx.arange(size), [size if i == dim else 1 for i in range(at.ndim)])
            for dim, size in enumerate(at.shape)
        ]
        t[out] = source.at[tuple(where)].add(added)

    return step


def _broadcast_beside(axis: int, *arrays: mx.array) -> list[mx.array]:
    """Broadcast arrays of one rank to each other along every axis but this one."""
    common = list(
        mx.broadcast_shapes(
            *((*array.shape[:axis], 1, *array.shape[axis + 1 :]) for array in arrays)
        )
    )
    spread = []
    for array in arrays:
        common[axis] = array.shape[axis]
        spread.append(mx.broadcast_to(array, common))
    return spread


def _replaced(array: mx.array, axis: int, part: slice, update: mx.array) -> mx.array:
    shape = list(array.shape)
    shape[axis] = len(range(*part.indices(shape[axis])))
    changed = mx.array(array)  # another handle: assigning rebinds it and leaves the slot's own
    # Broadcast first: assignment would also remove leading axes of size 1.
    changed[(*(slice(None),) * axis, part)] = mx.broadcast_to(update, shape)
    return changed


def slice_update(node: Node) -> Step:
    """Replace a slice along one axis; an empty slice changes nothing."""
    dst, update, out, stride = node.dst, node.update, node.out, node.step
    axis, start, stop = (
        make_int_reader(node.axis),
        make_int_reader(node.start),
        make_int_reader(node.stop),
    )

    def step(t: list[Any], v: list[Any]) -> None:
        target = t[dst]
        at = normalize_axis(axis(v), target.ndim)
        first, last, _ = slice(start(v), stop(v)).indices(target.shape[at])
        if first == last:
            t[out] = target
            return
        t[out] = _replaced(target, at, slice(first, last, stride), t[update])

    return step


def index_copy(node: Node) -> Step:
    """Copy rows of ``update`` to the positions in int64 indices, a consecutive range at a time."""
    dst, update, indices, out, axis = node.dst, node.update, node.indices, node.out, node.axis

    def step(t: list[Any], v: list[Any]) -> None:
        target, source, positions = t[dst], t[update], t[indices]
        if positions.ndim != 1 or positions.dtype != mx.int64:
            raise ProgramError(
                f"indices must be int64 of rank 1, not {positions.dtype} of rank {positions.ndim}"
            )
        # The runtime reads the elements consecutively in memory, whatever the strides.
        if positions.size > 1 and memoryview(positions).strides != (8,):
            raise ProgramError("indices are not consecutive in memory")
        at = normalize_axis(axis, target.ndim)
        if positions.size and source.ndim != target.ndim:
            # With a lower rank the runtime reads sizes that do not exist (exec_index_copy); slice
            # and broadcast_to in mlx/ops.cpp reject a higher rank and other sizes.
            raise ProgramError(
                f"an update of rank {source.ndim} for a tensor of rank {target.ndim}"
            )
        size = target.shape[at]
        check_indices(positions, size)
        rows = [int(row) % size for row in positions.tolist()]
        whole = slice(None)
        for first, last in _runs(rows):
            part = source
            if (first, last) != (0, source.shape[at]):
                part = source[(*(whole,) * at, slice(first, last))]
            length = last - first
            target = _replaced(target, at, slice(rows[first], rows[first] + length), part)
        t[out] = target

    return step


def _runs(rows: Sequence[int]) -> list[tuple[int, int]]:
    """Find ranges of positions whose rows are consecutive."""
    runs: list[tuple[int, int]] = []
    first = 0
    for at in range(1, len(rows) + 1):
        if at == len(rows) or rows[at] != rows[at - 1] + 1:
            runs.append((first, at))
            first = at
    return runs


BUILDERS: dict[str, Builder] = {
    "GatherNode": gather,
    "IndexCopyNode": index_copy,
    "ScatterAddNode": scatter_add,
    "SliceUpdateNode": slice_update,
    "TakeAlongAxisNode": take_along_axis,
    "TakeNode": take,
}
