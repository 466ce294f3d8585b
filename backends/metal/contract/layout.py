"""How the runtime lays out a tensor that the wrapper describes by sizes and strides.

An ExecuTorch tensor has an order of dimensions and no strides of its own: it can be any
permutation of a dense tensor and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from backends.metal.contract.call import TensorMeta

# SupportedDTypes in shims/utils.h.
SUPPORTED = frozenset("uint8 int32 int64 float32 bool bfloat16".split())
FLOATS = frozenset("float32 bfloat16".split())
WIDTHS = {
    name: width
    for width, names in {
        1: "uint8 int8 bool float8_e4m3fn float8_e5m2",
        2: "int16 uint16 float16 bfloat16",
        4: "int32 uint32 float32",
        8: "int64 uint64 float64 complex64",
        16: "complex128",
    }.items()
    for name in names.split()
}


def row_major(sizes: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense tensor in the order of its dimensions."""
    strides = [1] * len(sizes)
    for at in range(len(sizes) - 2, -1, -1):
        strides[at] = strides[at + 1] * (sizes[at + 1] or 1)
    return tuple(strides)


def extent(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last one, both included."""
    if 0 in sizes:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def packed(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """``is_packed_strides`` in shims/memory.cpp: a view for which this is false is copied."""
    count = math.prod(sizes)
    return count <= 1 or extent(sizes, strides) == count


def ordered(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
    """The strides that a tensor gets; None if it aborts (extension/tensor/tensor_ptr.cpp).

    Dimensions are sorted by stride and laid out densely; only one of size 1 may have asked for
    another stride. The sort is stable for the few dimensions there are.
    """
    order = sorted(range(len(sizes)), key=lambda at: -strides[at])
    dense = row_major([sizes[at] for at in order])
    found = [0] * len(sizes)
    for place, at in enumerate(order):
        found[at] = dense[place]
    same = all(
        stride == got or size == 1 for size, stride, got in zip(sizes, strides, found, strict=True)
    )
    return tuple(found) if same else None


def seen(tensor: TensorMeta) -> tuple[int, ...]:
    """The strides that the runtime's kernels read from a tensor; a copied view is row-major."""
    if packed(tensor.sizes, tensor.strides):
        found = ordered(tensor.sizes, tensor.strides)
        if found is not None:
            return found
    return row_major(tensor.sizes)


def dense(tensor: TensorMeta) -> bool:
    """Reading the tensor's memory in row-major order gives its elements in order."""
    expected = row_major(tensor.sizes)
    return 0 in tensor.sizes or all(
        size == 1 or got == want
        for size, got, want in zip(tensor.sizes, seen(tensor), expected, strict=True)
    )


def reads_alike(tensor: TensorMeta) -> bool:
    """A kernel that indexes with the tensor's strides finds the same in a row-major copy of it.

    So it is if only leading dimensions are repeated: the first repetition is the whole rest.
    """
    at = 0
    while at < tensor.rank and (tensor.strides[at] == 0 or tensor.sizes[at] == 1):
        at += 1
    sizes, strides = tensor.sizes[at:], tensor.strides[at:]
    return all(
        size == 1 or got == want
        for size, got, want in zip(sizes, strides, row_major(sizes), strict=True)
    )


def size_in_bytes(tensor: TensorMeta) -> int:
    """Bytes that the runtime allocates for the tensor."""
    return math.prod(tensor.sizes) * WIDTHS.get(tensor.dtype, 1)
