"""Kernels of views and rearrangements: they move elements and do not change them."""

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
    check_allocation,
    make_int_reader,
    make_ints_reader,
    normalize_axis,
)
from backends.mlx.execution.kernels.elementwise import unary
from backends.mlx.payload.graph import Node, Tid
from harness import ProgramError


def reshape(node: Node) -> Step:
    """Reshape; MLX infers a size of -1 and does not check other negative sizes."""
    x, out, shape = node.x, node.out, make_ints_reader(node.shape)

    def step(t: list[Any], v: list[Any]) -> None:
        sizes = shape(v)
        if sizes and min(sizes) < -1:
            raise ProgramError(f"cannot reshape to {sizes}: sizes must be -1 or larger")
        t[out] = mx.reshape(t[x], sizes)

    return step


def transpose(node: Node) -> Step:
    """Permute the axes."""
    perm = node.perm
    return unary(lambda x: mx.transpose(x, perm), node)


def broadcast_to(node: Node) -> Step:
    """Expand; a -1 keeps the size of the input's axis, aligned from the right."""
    x, out, shape = node.x, node.out, make_ints_reader(node.shape)

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
    """Remove axes of size 1. A listed axis of another size stays, as in PyTorch."""
    dims = node.dims
    if not dims:
        return unary(mx.squeeze, node)

    def drop(x: mx.array) -> mx.array:
        single = [d for d in dims if -x.ndim <= d < x.ndim and x.shape[d] == 1]
        return mx.squeeze(x, single) if single else x

    return unary(drop, node)


def tile(node: Node) -> Step:
    """Repeat the whole array along each axis."""
    x, out, reps = node.x, node.out, make_ints_reader(node.reps)

    def step(t: list[Any], v: list[Any]) -> None:
        count = reps(v)
        if any(size < 0 for size in count):
            raise ProgramError(f"cannot tile {count} times")
        t[out] = mx.tile(t[x], count)

    return step


def repeat(node: Node) -> Step:
    """Repeat each element along one axis."""
    x, out, axis, repeats = node.x, node.out, node.axis, make_int_reader(node.repeats)

    def step(t: list[Any], v: list[Any]) -> None:
        source, count = t[x], repeats(v)
        shape = list(source.shape)
        shape[normalize_axis(axis, source.ndim)] *= count
        check_allocation(shape, source.dtype)
        t[out] = mx.repeat(source, count, axis)

    return step


def roll(node: Node) -> Step:
    """Shift along axes, wrapping around."""
    x, out, axes, shift = node.x, node.out, node.axes, make_ints_reader(node.shift)

    def step(t: list[Any], v: list[Any]) -> None:
        shifts: Any = shift(v)  # mlx's stub allows tuples of one element only
        t[out] = mx.roll(t[x], shifts, axes)

    return step


def flip(node: Node) -> Step:
    """Reverse the order along axes."""
    axes = node.axes

    return unary(lambda x: mx.flip(x, axes), node)


def slice_axis(node: Node) -> Step:
    """Slice ``x[start:stop:step]`` along one axis, by NumPy's rules for negative and large ends."""
    x, out, stride = node.x, node.out, node.step
    axis, start, stop = (
        make_int_reader(node.axis),
        make_int_reader(node.start),
        make_int_reader(node.stop),
    )

    def step(t: list[Any], v: list[Any]) -> None:
        source = t[x]
        at = normalize_axis(axis(v), source.ndim)
        t[out] = source[(*(slice(None),) * at, slice(start(v), stop(v), stride))]

    return step


def split(node: Node) -> Step:
    """Split along an axis.

    A single size is the size of every chunk but the last. Of several sizes, each is the size of one
    chunk and the last is not read; cuts beyond the end give empty chunks (``exec_split``, ``split``
    in mlx/ops.cpp).
    """
    x, outs, axis, sizes = node.x, node.outs, node.axis, make_ints_reader(node.sizes)

    def step(t: list[Any], v: list[Any]) -> None:
        source, given = t[x], sizes(v)
        length = source.shape[normalize_axis(axis, source.ndim)]
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
    """Pad with a constant, or with the value at the edge."""
    x, out, mode, widths = node.x, node.out, node.mode, make_ints_reader(node.pad_width)
    value = mx.array(node.constant_value if mode == "constant" else 0.0, mx.float32)

    def step(t: list[Any], v: list[Any]) -> None:
        flat = widths(v)
        pairs = list(zip(flat[::2], flat[1::2], strict=True))
        # mx.pad repeats a single pair for every axis; the runtime's pad in mlx/ops.cpp does not.
        if len(pairs) != t[x].ndim:
            raise ProgramError(f"{len(pairs)} pairs of padding for {t[x].ndim} dimensions")
        t[out] = mx.pad(t[x], pairs, mode=mode, constant_values=value)

    return step


def as_strided(node: Node) -> Step:
    """Make a strided view of the row-major elements; the runtime does not check bounds."""
    x, out, offset = node.x, node.out, node.offset
    shape, strides = make_ints_reader(node.shape), make_ints_reader(node.strides)

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
    """Make the elements row-major in memory."""
    return unary(mx.contiguous, node)


def _join(function: Callable[..., mx.array], node: Node) -> Step:
    tensors: list[Tid] = node.tensors
    out, axis = node.out, node.axis

    def step(t: list[Any], v: list[Any]) -> None:
        t[out] = function([t[slot] for slot in tensors], axis)

    return step


def concatenate(node: Node) -> Step:
    """Concatenate along an existing axis."""
    return _join(mx.concatenate, node)


def stack(node: Node) -> Step:
    """Stack along a new axis."""
    return _join(mx.stack, node)


def _triangle(function: Callable[..., mx.array], node: Node) -> Step:
    k = node.k
    return unary(lambda x: function(x, k), node)


def tril(node: Node) -> Step:
    """Set elements above the k-th diagonal to zero."""
    return _triangle(mx.tril, node)


def triu(node: Node) -> Step:
    """Set elements below the k-th diagonal to zero."""
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
