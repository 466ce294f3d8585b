"""Shared parts of the kernels: the table, conversion of arguments, limits on memory.

An argument is a tensor (:class:`torch.Tensor` of any rank), a constant of rank 0 (a Python
number, bool or str; a tensor of rank 0 is accepted as well and keeps its dtype), or a list of
those. A kernel never changes an argument, but its result may share memory with one.
"""

from __future__ import annotations

import functools
import math
import os
import resource
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import torch

from harness import ProgramError, UnsupportedProgram

MilKernel = Callable[..., torch.Tensor | list[torch.Tensor]]
"""Computes an operation. Arguments are keywords named as the operation's inputs in MIL."""

Scalar = bool | int | float

# string_to_builtin in coremltools/converters/mil/mil/types/type_mapping.py, for the types that
# tensors of an ML Program have.
DTYPES: Mapping[str, torch.dtype] = {
    "int8": torch.int8,
    "uint8": torch.uint8,
    "int16": torch.int16,
    "uint16": torch.uint16,
    "int32": torch.int32,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "bool": torch.bool,
}

# Largest result of a kernel. Models have smaller ones; filling more takes seconds.
MAX_TENSOR_BYTES = 2 * 2**30

_Kernel = TypeVar("_Kernel", bound=MilKernel)

_kernels: dict[str, MilKernel] = {}


def get_registered_kernels() -> Mapping[str, MilKernel]:
    """Return the kernels registered so far, by MIL operation."""
    return _kernels


def register_kernel(name: str) -> Callable[[_Kernel], _Kernel]:
    """Make a decorator that registers the kernel of a MIL operation."""

    def register(kernel: _Kernel) -> _Kernel:
        if name in _kernels:
            raise ValueError(f"MIL operation {name} has a kernel already")
        _kernels[name] = kernel
        return kernel

    return register


def to_dtype(name: str) -> torch.dtype:
    """Return the torch dtype of a MIL type name such as ``fp16``.

    Raises:
        ProgramError: tensors of an ML Program have no such type.
    """
    if name not in DTYPES:
        raise ProgramError(f"{name!r} is not one of the types {', '.join(DTYPES)}")
    return DTYPES[name]


def to_tensor(value: torch.Tensor | Scalar, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Return a tensor: a number becomes one of rank 0 (bool, int32, float32 unless ``dtype``)."""
    if isinstance(value, torch.Tensor):
        return value if dtype is None else value.to(dtype)
    if not isinstance(value, bool | int | float):
        raise ProgramError(f"expected a tensor or a number, found {value!r}")
    if dtype is None:
        kinds = ((bool, torch.bool), (int, torch.int32), (float, torch.float32))
        dtype = next(kind for python, kind in kinds if isinstance(value, python))
    return torch.tensor(value, dtype=dtype)


def to_number(value: torch.Tensor | Scalar) -> Scalar:
    """Return a constant of rank 0 as a Python number.

    Raises:
        ProgramError: it is no number or has several elements.
    """
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        item: Scalar = value.item()
        return item
    if isinstance(value, bool | int | float):
        return value
    raise ProgramError(f"expected one number, found {describe(value)}")


def to_int(value: torch.Tensor | Scalar) -> int:
    """Return a constant of rank 0 as int.

    Raises:
        ProgramError: it is not an integer.
    """
    number = to_number(value)
    if isinstance(number, float):
        raise ProgramError(f"expected an integer, found {number!r}")
    return int(number)


def to_ints(value: Any) -> list[int]:
    """Return a constant vector (a tensor, a list, or one number) as ints.

    Raises:
        ProgramError: it has another rank, or elements that are not integers.
    """
    if isinstance(value, torch.Tensor):
        if value.dim() > 1 or value.is_floating_point():
            raise ProgramError(f"expected a vector of integers, found {describe(value)}")
        return [int(item) for item in value.reshape(-1).tolist()]
    if isinstance(value, list | tuple):
        return [to_int(item) for item in value]
    return [to_int(value)]


def to_flags(value: Any, count: int, default: bool = False) -> list[bool]:
    """Return a constant vector of bools of a given length; without one, ``default`` repeated.

    Raises:
        ProgramError: the length differs.
    """
    if value is None:
        return [default] * count
    flags = [bool(item) for item in to_ints(value)]
    if len(flags) != count:
        raise ProgramError(f"expected {count} flags, found {len(flags)}")
    return flags


def describe(value: Any) -> str:
    """Return a short text for an error: shape and dtype of a tensor, repr of another value."""
    if isinstance(value, torch.Tensor):
        return f"a tensor {list(value.shape)} of {value.dtype}"
    return repr(value)[:80]


def normalize_axis(axis: torch.Tensor | Scalar, rank: int) -> int:
    """Return a possibly negative axis as 0..rank-1.

    Raises:
        ProgramError: the axis is out of range.
    """
    number = to_int(axis)
    if not -rank <= number < rank:
        raise ProgramError(f"axis {number} is out of range for {rank} dimensions")
    return number % rank


def normalize_axes(axes: Any, rank: int) -> list[int]:
    """Return the axes as sorted numbers 0..rank-1; without ``axes``, all axes.

    Raises:
        ProgramError: an axis is out of range or repeated.
    """
    if axes is None:
        return list(range(rank))
    numbers = sorted(normalize_axis(axis, rank) for axis in to_ints(axes))
    if len(set(numbers)) < len(numbers):
        raise ProgramError(f"axes {numbers} repeat an axis")
    return numbers


@functools.cache
def _host_bytes() -> int:
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return most if limit == resource.RLIM_INFINITY else min(most, limit)


def check_allocation(shape: Iterable[int], dtype: torch.dtype) -> None:
    """Refuse a tensor with a negative size, or of more than 2 GiB or half of this host's memory.

    Raises:
        ProgramError: a size is negative.
        UnsupportedProgram: the tensor is too large.
    """
    sizes = list(shape)
    if any(size < 0 for size in sizes):
        raise ProgramError(f"cannot create a tensor of shape {sizes}")
    count = math.prod(sizes) * dtype.itemsize
    limit = min(_host_bytes() // 2, MAX_TENSOR_BYTES)
    if count > limit:
        raise UnsupportedProgram(
            f"a tensor of shape {sizes} would take {count} bytes, more than the limit of {limit}"
        )


def broadcast_sizes(*shapes: Sequence[int]) -> list[int]:
    """Return the shape to which shapes are broadcast.

    Raises:
        RuntimeError: they do not match.
    """
    return list(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]


def check_broadcast(*tensors: torch.Tensor) -> None:
    """Refuse a broadcast whose result would be too large.

    Raises:
        UnsupportedProgram: as for :func:`check_allocation`.
    """
    shapes = {tensor.shape for tensor in tensors}
    if len(shapes) > 1:
        check_allocation(broadcast_sizes(*shapes), tensors[0].dtype)


def match_dtypes(x: torch.Tensor, *others: torch.Tensor | None) -> list[torch.Tensor | None]:
    """Convert parameters of a normalization or product to the dtype of ``x`` (iOS 17 mixes them).

    Parameters of float32 beside float16 keep their dtype where torch's kernel can mix the two;
    all of them then have it.
    """
    mixes = x.dtype == torch.float16 and any(
        other is not None and other.dtype == torch.float32 for other in others
    )
    dtype = torch.float32 if mixes else x.dtype
    return [None if other is None else other.to(dtype) for other in others]


def move_elements(
    move: Callable[..., torch.Tensor], *tensors: torch.Tensor, **options: Any
) -> torch.Tensor:
    """Call a function that only moves elements; torch has few kernels for uint16."""
    if tensors[0].dtype != torch.uint16:
        return move(*tensors, **options)
    return move(*(tensor.view(torch.int16) for tensor in tensors), **options).view(torch.uint16)


def run_kernel(
    kernel: MilKernel, name: str, arguments: Mapping[str, Any]
) -> torch.Tensor | list[torch.Tensor]:
    """Call a kernel and turn all its errors into those of a program.

    Args:
        kernel: the kernel.
        name: the operation, for messages.
        arguments: its inputs by name.

    Raises:
        UnsupportedProgram: the result would not fit into memory, or MIL does not define it.
        ProgramError: the arguments are invalid.
    """
    try:
        with torch.no_grad():
            return kernel(**arguments)
    except UnsupportedProgram as error:
        raise UnsupportedProgram(f"MIL operation {name}: {error}") from error
    except ProgramError as error:
        raise ProgramError(f"MIL operation {name}: {error}") from error
    except Exception as error:
        lines: Sequence[str] = str(error).splitlines() or [type(error).__name__]
        raise ProgramError(f"MIL operation {name}: {lines[0]}") from error
