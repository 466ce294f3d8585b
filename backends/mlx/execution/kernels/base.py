"""Shared parts of the kernels: step and builder types, literals and value slots, dtypes, limits.

All semantics follow the delegate's runtime: ``MLXInterpreter.h`` (an ``exec_*`` function for each
node) and ``MLXExecutor.h`` in ``backends/mlx/runtime`` of executorch.
"""

from __future__ import annotations

import functools
import os
import resource
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import mlx.core as mx

from backends.mlx.payload.checks import MAX_ALLOCATION_BYTES
from backends.mlx.payload.graph import Node, Vid
from harness import ProgramError, UnsupportedProgram

Step = Callable[[list[Any], list[Any]], None]
"""Executes one instruction on the tensor slots and the value slots."""

Builder = Callable[[Node], Step]
"""Compiles an instruction to its step; constant values are computed once, here."""

INT32_MAX = 2**31 - 1
INT32_MIN = -(2**31)

# resolve_dtype in MLXExecutor.h, by ExecuTorch's ScalarType number.
DTYPES: dict[int, mx.Dtype] = {
    0: mx.uint8,
    1: mx.int8,
    2: mx.int16,
    3: mx.int32,
    4: mx.int64,
    5: mx.float16,
    6: mx.float32,
    11: mx.bool_,
    15: mx.bfloat16,
    28: mx.uint32,
}


def to_mlx_dtype(scalar_type: int) -> mx.Dtype:
    """Return the MLX dtype of a ScalarType number.

    Raises:
        ProgramError: the delegate's runtime has no such dtype.
    """
    if scalar_type not in DTYPES:
        raise ProgramError(f"scalar type {scalar_type} has no MLX dtype")
    return DTYPES[scalar_type]


def make_int_reader(item: int | Vid) -> Callable[[list[Any]], int]:
    """Make a function that reads a literal or a value slot as int32.

    Literals saturate, as in ``resolve_int``.
    """
    if isinstance(item, Vid):
        slot = int(item)

        def read(values: list[Any]) -> int:
            value = values[slot]
            if type(value) is not int:
                raise ProgramError(f"value slot v{slot} holds {value!r}, expected an int32")
            return value

        return read
    literal = min(max(item, INT32_MIN), INT32_MAX)
    return lambda values: literal


def make_ints_reader(items: Sequence[int | Vid]) -> Callable[[list[Any]], list[int]]:
    """Make a function that reads a list of literals and value slots as int32."""
    if not any(isinstance(item, Vid) for item in items):
        literals = [min(max(item, INT32_MIN), INT32_MAX) for item in items]
        return lambda values: literals
    readers = [make_int_reader(item) for item in items]
    return lambda values: [read(values) for read in readers]


def make_float_reader(item: float | Vid) -> Callable[[list[Any]], float]:
    """Make a function that reads a literal or a value slot as float (``resolve_float``)."""
    if isinstance(item, Vid):
        slot = int(item)

        def read(values: list[Any]) -> float:
            if values[slot] is None:
                raise ProgramError(f"value slot v{slot} is read before it is written")
            return float(values[slot])

        return read
    return lambda values: item


def normalize_axis(axis: int, rank: int) -> int:
    """Return a possibly negative axis as 0..rank-1 (``normalize_axis``).

    Raises:
        ProgramError: the axis is out of range.
    """
    if not -rank <= axis < rank:
        raise ProgramError(f"axis {axis} is out of range for {rank} dimensions")
    return axis % rank


def check_allocation(shape: Iterable[int], dtype: mx.Dtype) -> None:
    """Reject sizes below 1 and more than 4 GiB, like ``check_allocation_bounded``.

    Raises:
        ProgramError: the runtime would not create such a tensor.
    """
    count = dtype.size
    for size in shape:
        if size <= 0:
            raise ProgramError(f"cannot create a tensor with a dimension of size {size}")
        count *= size
    if count > MAX_ALLOCATION_BYTES:
        raise ProgramError(f"a tensor of {count} bytes exceeds the runtime's limit of 4 GiB")


@functools.cache
def _host_bytes() -> int:
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return most if limit == resource.RLIM_INFINITY else min(most, limit)


def check_memory(name: str, count: int) -> None:
    """Reject an allocation of more than half of this host's memory: MLX crashes without memory.

    Args:
        name: name of the allocation, for the message.
        count: its size in bytes.

    Raises:
        UnsupportedProgram: the allocation is too large.
    """
    if count > _host_bytes() // 2:
        raise UnsupportedProgram(
            f"{name} would take {count} bytes, more than half of this host's memory"
        )


def check_indices(indices: mx.array, size: int, *, negative: bool = True) -> None:
    """Require integers in ``-size .. size - 1``: MLX itself would read outside the tensor.

    Args:
        indices: indices of any shape.
        size: size of the indexed axis.
        negative: whether negative indices count from the end; otherwise they are rejected.

    Raises:
        ProgramError: an index is out of range, or the dtype is wrong.
    """
    if not mx.issubdtype(indices.dtype, mx.integer):
        raise ProgramError(f"indices are {indices.dtype}, expected integers")
    if indices.size == 0:
        return
    ends: Any = mx.stack([mx.min(indices), mx.max(indices)]).tolist()
    for index in ends:
        if not (-size if negative else 0) <= index < size:
            raise ProgramError(f"index {index} is out of range for an axis of size {size}")
