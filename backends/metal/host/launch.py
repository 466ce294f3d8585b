"""Check the arguments of a dispatch, and derive threadgroups as the ExecuTorch runtime does.

Sources: ``backends/apple/metal/runtime/shims/et_metal.mm`` (``dispatchSingle``, ``dispatchArray``
and their variants with a group size), which calls Metal's ``dispatchThreads``.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backends.metal.host.errors import LaunchError
from backends.metal.host.kernel_source import Parameter

#: Most threads of a threadgroup on any Metal device.
MAX_THREADS = 1024

Grid = tuple[int, int, int]


@dataclass(frozen=True)
class Buffer:
    """Host memory that serves as a Metal buffer.

    Attributes:
        address: address of its first byte.
        nbytes: number of bytes that the kernel may access.
        owner: an object that keeps the memory alive.
    """

    address: int
    nbytes: int
    owner: Any = None


def dispatch_single(
    length: int, group: int | None = None, max_threads: int = MAX_THREADS
) -> tuple[Grid, Grid]:
    """Return grid and threadgroup of ``aoti_torch_mps_dispatch_single[_with_group_size]``.

    Args:
        length: number of threads.
        group: threads of a threadgroup; None or 0 lets the runtime choose.
        max_threads: the limit of the kernel's pipeline.
    """
    return (length, 1, 1), (min(max_threads, group or length), 1, 1)


def dispatch_array(
    lengths: Sequence[int], group: Sequence[int] | None = None, max_threads: int = MAX_THREADS
) -> tuple[Grid, Grid]:
    """Return grid and threadgroup of ``aoti_torch_mps_dispatch_array[_with_group_size]``.

    Args:
        lengths: number of threads in one to three dimensions.
        group: threads of a threadgroup in as many dimensions; None lets the runtime choose.
        max_threads: the limit of the kernel's pipeline.

    Raises:
        LaunchError: no dimension, or more than three.
    """
    if not 1 <= len(lengths) <= 3:
        raise LaunchError(f"a grid has one to three dimensions, not {len(lengths)}")
    grid = _three(lengths)
    if len(lengths) == 1:
        return grid, (min(max_threads, group[0] if group else grid[0]), 1, 1)
    if group is not None and len(group) >= len(lengths):
        x, y, z = _three(group[: len(lengths)])
        return grid, (min(x, grid[0]), min(y, grid[1]), min(z, grid[2]))
    if 0 in grid:
        return grid, (1, 1, 1)
    if len(lengths) == 2:
        x = min(32, grid[0])
        return grid, (x, max_threads // x, 1)
    x, y = min(8, grid[0]), min(8, grid[1])
    return grid, (x, y, max_threads // (x * y))


def check_geometry(kernel: str, grid: Grid, group: Grid, max_threads: int) -> None:
    """Reject a grid or threadgroup that Metal's validation rejects.

    Raises:
        LaunchError: a threadgroup without threads or with more than ``max_threads``.
    """
    if min(grid) < 0 or max(grid) >= 1 << 32:
        raise LaunchError(f"kernel {kernel}: a grid of {grid} threads is impossible")
    threads = group[0] * group[1] * group[2]
    if min(group) < 1 or threads > max_threads:
        raise LaunchError(
            f"kernel {kernel}: a threadgroup of {group} has {threads} threads, "
            f"its pipeline allows 1 to {max_threads}"
        )


def argument_memory(kernel: str, parameter: Parameter, value: object) -> Buffer:
    """Return the memory of an argument; a scalar is copied to new memory.

    Raises:
        LaunchError: the value does not fit the parameter.
    """
    if parameter.kind == "scalar":
        return _scalar(kernel, parameter, value)
    if isinstance(value, Buffer):
        return value
    if isinstance(value, np.ndarray):
        if not (value.flags.c_contiguous or value.flags.f_contiguous):
            raise LaunchError(
                f"kernel {kernel}: {parameter.name} is not contiguous; pass a Buffer instead"
            )
        if parameter.kind == "output" and not value.flags.writeable:
            raise LaunchError(f"kernel {kernel}: {parameter.name} is written, its array read-only")
        return Buffer(value.ctypes.data, value.nbytes, value)
    raise LaunchError(f"kernel {kernel}: {parameter.name} takes memory, not {type(value).__name__}")


def _scalar(kernel: str, parameter: Parameter, value: object) -> Buffer:
    if isinstance(value, bool | int | np.integer):
        floating = parameter.type in ("float", "half", "bfloat")
        data = struct.pack("<f", value) if floating else struct.pack("<q", int(value))
    elif isinstance(value, float) and parameter.type == "float":
        data = struct.pack("<f", value)
    elif isinstance(value, bytes):
        data = value
    else:
        raise LaunchError(
            f"kernel {kernel}: {parameter.name} is a {parameter.type}, not {value!r:.40}"
        )
    memory = ctypes.create_string_buffer(data.ljust(16, b"\0"), max(16, len(data)))
    return Buffer(ctypes.addressof(memory), len(data), memory)


def _three(sizes: Sequence[int]) -> Grid:
    x, y, z = (*(int(size) for size in sizes), 1, 1, 1)[:3]
    return x, y, z
