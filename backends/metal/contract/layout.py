"""Compute how the runtime lays out a tensor of given sizes and strides.

An ExecuTorch tensor has a dim order and no strides of its own, so it can only be a dense tensor
with permuted dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from backends.metal.contract.call import CallTensor

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
    """Return the strides of a dense row-major tensor."""
    strides = [1] * len(sizes)
    for at in range(len(sizes) - 2, -1, -1):
        strides[at] = strides[at + 1] * (sizes[at + 1] or 1)
    return tuple(strides)


def extent(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Return the number of elements in memory from the first to the last, inclusive."""
    if 0 in sizes:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def is_packed(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Return the result of ``is_packed_strides`` in shims/memory.cpp; other views are copied."""
    count = math.prod(sizes)
    return count <= 1 or extent(sizes, strides) == count


def compute_strides(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
    """Return the strides that a tensor gets; None if it aborts (extension/tensor/tensor_ptr.cpp).

    The runtime sorts dimensions by stride and lays them out densely; the stride of a dimension of
    size 1 may differ. The sort is stable for so few dimensions.
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


def get_runtime_strides(tensor: CallTensor) -> tuple[int, ...]:
    """Return the strides of a tensor for the runtime's kernels; a copied view is row-major."""
    if is_packed(tensor.sizes, tensor.strides):
        found = compute_strides(tensor.sizes, tensor.strides)
        if found is not None:
            return found
    return row_major(tensor.sizes)


def is_row_major(tensor: CallTensor) -> bool:
    """Return whether the tensor's elements are row-major in memory."""
    expected = row_major(tensor.sizes)
    return 0 in tensor.sizes or all(
        size == 1 or got == want
        for size, got, want in zip(tensor.sizes, get_runtime_strides(tensor), expected, strict=True)
    )


def can_index_copy(tensor: CallTensor) -> bool:
    """Return whether a kernel may index a row-major copy with the tensor's own strides.

    It may if only leading dimensions have a stride of 0: the copy begins with the other dimensions.
    """
    at = 0
    while at < tensor.rank and (tensor.strides[at] == 0 or tensor.sizes[at] == 1):
        at += 1
    sizes, strides = tensor.sizes[at:], tensor.strides[at:]
    return all(
        size == 1 or got == want
        for size, got, want in zip(sizes, strides, row_major(sizes), strict=True)
    )
