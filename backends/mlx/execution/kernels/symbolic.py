"""Kernels of integers in value slots: sizes, arithmetic, and reading one from a tensor."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy

from backends.mlx.execution.kernels.base import (
    INT32_MAX,
    INT32_MIN,
    Builder,
    Step,
    make_int_reader,
    normalize_axis,
)
from backends.mlx.payload.graph import Node
from harness import ProgramError


def arithmetic(function: Callable[[int, int], int], node: Node) -> Step:
    """Compute on int32; overflow and division by zero are errors."""
    a, b, out = make_int_reader(node.a), make_int_reader(node.b), node.out

    def step(t: list[Any], v: list[Any]) -> None:
        left, right = a(v), b(v)
        try:
            result = function(left, right)
        except ZeroDivisionError:
            raise ProgramError(f"{node.kind}: {left} is divided by zero") from None
        if not INT32_MIN <= result <= INT32_MAX:
            raise ProgramError(f"{node.kind}: {result} of {left} and {right} is not an int32")
        v[out] = result

    return step


def sym_size(node: Node) -> Step:
    """Read the size of a dimension."""
    a, out, dim = node.a, node.out, node.dim

    def step(t: list[Any], v: list[Any]) -> None:
        shape = t[a].shape
        v[out] = shape[normalize_axis(dim, len(shape))]

    return step


def item_int(node: Node) -> Step:
    """Read the only element of a tensor as an int32.

    The runtime reads four bytes for any dtype (``array::item<int>`` in ``mlx/array.h``
    reinterprets): the low half of an int64, the bits of a float32. A narrower element does not
    have four bytes, so its value is undefined.
    """
    x, out = node.x, node.out

    def step(t: list[Any], v: list[Any]) -> None:
        source = t[x]
        if source.size != 1:
            raise ProgramError(f"a tensor of shape {source.shape} has no single element")
        if source.dtype.size < 4:
            raise ProgramError(
                f"the runtime reads 4 bytes of a {source.dtype}, which has {source.dtype.size}"
            )
        low = mx.view(mx.reshape(source, [1]), mx.int32)
        v[out] = int(numpy.array(low)[0])

    return step


BUILDERS: dict[str, Builder] = {
    "AddIntNode": functools.partial(arithmetic, lambda a, b: a + b),
    "FloorDivideIntNode": functools.partial(arithmetic, lambda a, b: a // b),
    "ItemIntNode": item_int,
    "ModIntNode": functools.partial(arithmetic, lambda a, b: a % b),
    "MultiplyIntNode": functools.partial(arithmetic, lambda a, b: a * b),
    "SubtractIntNode": functools.partial(arithmetic, lambda a, b: a - b),
    "SymSizeNode": sym_size,
}
