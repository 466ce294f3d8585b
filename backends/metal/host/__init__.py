"""Compile Inductor's Metal shader source with g++ and execute it on this machine.

:class:`Library` takes the source unchanged; :meth:`Kernel.dispatch` runs one dispatch on host
memory, with Metal's grid, threadgroups, barriers and SIMD groups. In checked mode, the default,
each access is bounds-checked and races between threads are reported. See docs/numerics.md for the
floating-point semantics.
"""

from backends.metal.host.errors import (
    BarrierDivergence,
    CompileError,
    DataRace,
    HostMemoryError,
    IntegerDivisionByZero,
    KernelFault,
    LaunchError,
    LostWrite,
    OutOfBounds,
    ReadOnlyWrite,
    SourceError,
    ThreadgroupMemoryExceeded,
    UninitializedRead,
)
from backends.metal.host.launch import Buffer, dispatch_array, dispatch_single
from backends.metal.host.library import Kernel, Library

__all__ = [
    "BarrierDivergence",
    "Buffer",
    "CompileError",
    "DataRace",
    "HostMemoryError",
    "IntegerDivisionByZero",
    "Kernel",
    "KernelFault",
    "LaunchError",
    "Library",
    "LostWrite",
    "OutOfBounds",
    "ReadOnlyWrite",
    "SourceError",
    "ThreadgroupMemoryExceeded",
    "UninitializedRead",
    "dispatch_array",
    "dispatch_single",
]
