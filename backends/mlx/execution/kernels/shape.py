"""Views and rearrangements: what changes where an element is, not what it is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import mlx.core as mx

from backends.mlx.execution.kernels.base import (
    INT32_MAX,
    INT32_MIN,
    Builder,
    Step,
    axis_in,
    check_allocation,
    integer,
    integers,
)
from backends.mlx.execution.kernels.elementwise import unary
from backends.mlx.payload.graph import Node, Tid
from harness import ProgramError


def reshape(node: Node) -> Step:
    """To another shape; MLX infers a -1, and would take other negative sizes as they are."""
    x, out, shape = node.x, node.out, integers(node.shape)

    def step(t: list[Any], v: list[Any]) -> None:
        sizes = shape(v)
        if sizes and min(sizes) < -1:
            raise ProgramError(f"cannot reshape to {sizes}")
        t[out] = mx.reshape(t[x], sizes)

    return step


def transpose(node: Node) -> Step:
    """Permute the axes."""
    perm = node.perm
    return unary(lambda x: mx.transpose(x, perm), node)


def broadcast_to(node: Node) -> Step:
    """Expand; a -1 keeps the size of the input's axis, aligned from the right."""
    x, out, shape = node.x, node.out, integers(node.shape)

    def step(t: list[Any], v: list[Any]) -> None:
        source, wanted = t[x], list(shape(v))
        extra = len(wanted) - source.ndim
        for position, size in enumerate(wanted):
            if size == -1 and position >= extra:
                wanted[position] = source.shape[position - extra]
        t[out] = mx.broadcast_to(source, wanted)

    return step


def expand_dims(node: Node) -> Step:
    """Insert an axis of size 1."""
    axis = node.axis
    return unary(lambda x: mx.expand_dims(x, axis), node)


def squeeze(node: Node) -> Step:
    """Drop axes of size 1. A named axis of another size is kept, as PyTorch does."""
    dims = node.dims
    if not dims:
        return unary(mx.squeeze, node)

    def drop(x: mx.array) -> mx.array:
        single = [d for d in dims if -x.ndim <= d < x.ndim and x.shape[d] == 1]
        return mx.squeeze(x, single) if single else x

    return unary(drop, node)


def tile(node: Node) -> Step:
    """Repeat the whole array along each axis."""
    x, out, reps = node.x, node.out, integers(node.reps)

    def step(t: list[Any], v: list[Any]) -> None:
        count = reps(v)
        if any(size < 0 for size in count):
            raise ProgramError(f"cannot tile {count} times")
        t[out] = mx.tile(t[x], count)

    return step


def repeat(node: Node) -> Step:
    """Repeat each element along one axis."""
    x, out, axis, repeats = node.x, node.out, node.axis, integer(node.repeats)

    def step(t: list[Any], v: list[Any]) -> None:
        source, count = t[x], repeats(v)
        shape = list(source.shape)
        shape[axis_in(axis, source.ndim)] *= count
        check_allocation(shape, source.dtype)
        t[out] = mx.repeat(source, count, axis)

    return step


def roll(node: Node) -> Step:
    """Shift along axes, wrapping around."""
    x, out, axes, shift = node.x, node.out, node.axes, integers(node.shift)

    def step(t: list[Any], v: list[Any]) -> None:
        shifts: Any = shift(v)  # mlx's stub knows tuples of one element only
        t[out] = mx.roll(t[x], shifts, axes)

    return step


def flip(node: Node) -> Step:
    """Reverse the order along axes."""
    axes = node.axes

    return unary(lambda x: mx.flip(x, axes), node)


def slice_axis(node: Node) -> Step:
    """``x[start:stop:step]`` along one axis, by NumPy's rules for negative and large ends."""
    x, out, stride = node.x, node.out, node.step
    axis, start, stop = integer(node.axis), integer(node.start), integer(node.stop)

    def step(t: list[Any], v: list[Any]) -> None:
        source = t[x]
        at = axis_in(axis(v), source.ndim)
        t[out] = source[(*(slice(None),) * at, slice(start(v), stop(v), stride))]

    return step


def split(node: Node) -> Step:
    """One size is the size of every chunk but the last; several say where the chunks end.

    Of several the last one is not read, and cuts beyond the end give empty chunks
    (``exec_split``, ``split`` in mlx/ops.cpp).
    """
    x, outs, axis, sizes = node.x, node.outs, node.axis, integers(node.sizes)

    def step(t: list[Any], v: list[Any]) -> None:
        source, given = t[x], sizes(v)
        length = source.shape[axis_in(axis, source.ndim)]
        if len(given) == 1:
            if given[0] <= 0:
                raise ProgramError(f"cannot split into chunks of size {given[0]}")
            cuts = list(range(given[0], length, given[0]))
        else:
            cuts = list(itertools.accumulate(given[:-1]))
            if any(not INT32_MIN <= cut <= INT32_MAX for cut in cuts):
                raise ProgramError(f"sizes {given} add up to more than an int32")
        parts = mx.split(source, cuts, axis) if cuts else [source]
        if len(parts) != len(outs):
            raise ProgramError(f"split makes {len(parts)} parts for {len(outs)} slots")
        for slot, part in zip(outs, parts, strict=True):
            t[slot] = part

    return step


def pad(node: Node) -> Step:
    """With a constant, or with the value at the edge."""
    x, out, mode, widths = node.x, node.out, node.mode, integers(node.pad_width)
    value = mx.array(node.constant_value if mode == "constant" else 0.0, mx.float32)

    def step(t: list[Any], v: list[Any]) -> None:
        flat = widths(v)
        pairs = list(zip(flat[::2], flat[1::2], strict=True))
        # mx.pad repeats a single pair for every axis; the pad of mlx/ops.cpp that the runtime
        # calls does not.
        if len(pairs) != t[x].ndim:
            raise ProgramError(f"{len(pairs)} pairs of padding for {t[x].ndim} dimensions")
        t[out] = mx.pad(t[x], pairs, mode=mode, constant_values=value)

    return step


def as_strided(node: Node) -> Step:
    """A strided view of the row-major elements; the runtime itself checks no bounds."""
    x, out, offset = node.x, node.out, node.offset
    shape, strides = integers(node.shape), integers(node.strides)

    def step(t: list[Any], v: list[Any]) -> None:
        source, sizes, steps = t[x], shape(v), strides(v)
        if len(sizes) != len(steps) or any(size < 0 for size in sizes):
            raise ProgramError(f"strides {steps} do not fit shape {sizes}")
        if math.prod(sizes):
            reach = [(size - 1) * stride for size, stride in zip(sizes, steps, strict=True)]
            low = offset + sum(min(0, r) for r in reach)
            high = offset + sum(max(0, r) for r in reach)
            if low < 0 or high >= source.size:
                raise ProgramError(
                    f"a view of elements {low}..{high} leaves a tensor of {source.size} elements"
                )
        t[out] = mx.as_strided(source, sizes, steps, offset)

    return step


def contiguous(node: Node) -> Step:
    """Row-major in memory."""
    return unary(mx.contiguous, node)


def _joined(function: Callable[..., mx.array], node: Node) -> Step:
    tensors: list[Tid] = node.tensors
    out, axis = node.out, node.axis

    def step(t: list[Any], v: list[Any]) -> None:
        t[out] = function([t[slot] for slot in tensors], axis)

    return step


def concatenate(node: Node) -> Step:
    """Along an axis that exists."""
    return _joined(mx.concatenate, node)


def stack(node: Node) -> Step:
    """Along a new axis."""
    return _joined(mx.stack, node)


def _triangle(function: Callable[..., mx.array], node: Node) -> Step:
    k = node.k
    return unary(lambda x: function(x, k), node)


def tril(node: Node) -> Step:
    """Zero above the k-th diagonal."""
    return _triangle(mx.tril, node)


def triu(node: Node) -> Step:
    """Zero below the k-th diagonal."""
    return _triangle(mx.triu, node)


BUILDERS: dict[str, Builder] = {
    "AsStridedNode": as_strided,
    "BroadcastToNode": broadcast_to,
    "ConcatenateNode": concatenate,
    "ContiguousNode": contiguous,
    "ExpandDimsNode": expand_dims,
    "FlipNode": flip,
    "PadNode": pad,
    "RepeatNode": repeat,
    "ReshapeNode": reshape,
    "RollNode": roll,
    "SliceNode": slice_axis,
    "SplitNode": split,
    "SqueezeNode": squeeze,
    "StackNode": stack,
    "TileNode": tile,
    "TransposeNode": transpose,
    "TrilNode": tril,
    "TriuNode": triu,
}
