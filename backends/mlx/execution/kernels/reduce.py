"""Kernels of reductions, scans along an axis, sorting and selection."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import mlx.core as mx

from backends.mlx.execution.kernels.base import Builder, Step, make_int_reader, normalize_axis
from backends.mlx.execution.kernels.elementwise import unary
from backends.mlx.payload.graph import Node
from harness import ProgramError

# Reductions over a list of axes; an empty list means all axes.
OVER_AXES: dict[str, Callable[..., mx.array]] = {
    "AllNode": mx.all,
    "AnyNode": mx.any,
    "LogSumExpNode": mx.logsumexp,
    "MaxNode": mx.max,
    "MeanNode": mx.mean,
    "MedianNode": mx.median,
    "MinNode": mx.min,
    "ProdNode": mx.prod,
    "SumNode": mx.sum,
}


def over_axes(function: Callable[..., mx.array], node: Node) -> Step:
    """Build ``out = function(x, axes, keepdims)``."""
    axes, keepdims = node.axes or None, node.keepdims
    return unary(lambda x: function(x, axes, keepdims), node)


def logsumexp(node: Node) -> Step:
    """Compute logsumexp; unlike in other reductions, an empty list of axes reduces none."""
    axes, keepdims = node.axes or [], node.keepdims
    return unary(lambda x: mx.logsumexp(x, axes, keepdims), node)


def spread(function: Callable[..., mx.array], node: Node) -> Step:
    """Compute variance or standard deviation, with ``ddof`` degrees of freedom subtracted."""
    axes, keepdims, ddof = node.axes or None, node.keepdims, node.ddof
    return unary(lambda x: function(x, axes, keepdims, ddof), node)


def arg_extreme(function: Callable[..., mx.array], node: Node) -> Step:
    """Compute the index of the minimum or maximum along an axis, as uint32."""
    axis, keepdims = node.axis, node.keepdims
    return unary(lambda x: function(x, axis, keepdims), node)


def cumsum(node: Node) -> Step:
    """Compute the cumulative sum along an axis."""
    axis, reverse, inclusive = node.axis, node.reverse, node.inclusive
    return unary(lambda x: mx.cumsum(x, axis, reverse=reverse, inclusive=inclusive), node)


def softmax(node: Node) -> Step:
    """Compute softmax along an axis; ``precise`` accumulates in float32."""
    axis, precise = node.axis, node.precise
    return unary(lambda x: mx.softmax(x, axis, precise=precise), node)


def ordered(function: Callable[..., mx.array], node: Node) -> Step:
    """Sort, or compute the sorting permutation."""
    axis = node.axis
    return unary(lambda x: function(x, axis), node)


def partitioned(function: Callable[..., mx.array], node: Node) -> Step:
    """Partition: the ``kth`` element in its place, smaller ones before it, larger ones after."""
    x, out, axis, kth = node.x, node.out, node.axis, make_int_reader(node.kth)

    def step(t: list[Any], v: list[Any]) -> None:
        source, place = t[x], kth(v)
        length = source.shape[normalize_axis(axis, source.ndim)]
        if not -length <= place < length:
            raise ProgramError(f"element {place} is out of range for an axis of size {length}")
        t[out] = function(source, place, axis)

    return step


BUILDERS: dict[str, Builder] = {
    **{name: functools.partial(over_axes, function) for name, function in OVER_AXES.items()},
    "ArgPartitionNode": functools.partial(partitioned, mx.argpartition),
    "ArgmaxNode": functools.partial(arg_extreme, mx.argmax),
    "ArgminNode": functools.partial(arg_extreme, mx.argmin),
    "ArgsortNode": functools.partial(ordered, mx.argsort),
    "CumsumNode": cumsum,
    "LogSumExpNode": logsumexp,
    "PartitionNode": functools.partial(partitioned, mx.partition),
    "SoftmaxNode": softmax,
    "SortNode": functools.partial(ordered, mx.sort),
    "StdNode": functools.partial(spread, mx.std),
    "VarNode": functools.partial(spread, mx.var),
}
