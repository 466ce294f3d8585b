"""Call the host runtime through ctypes: run one dispatch, and raise its fault as an error."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from backends.metal.host import toolchain
from backends.metal.host.errors import (
    BarrierDivergence,
    DataRace,
    HostMemoryError,
    IntegerDivisionByZero,
    KernelFault,
    LostWrite,
    OutOfBounds,
    ReadOnlyWrite,
    ThreadgroupMemoryExceeded,
    UninitializedRead,
)
from backends.metal.host.kernel_source import Parameter, Signature
from backends.metal.host.launch import Buffer, Grid

_KINDS = {"input": 0, "output": 1, "scalar": 2}
_SCATTERED = 3
_UNKNOWN = 0xFFFFFFFF

# One dispatch at a time: the process has one runtime state and one threadgroup memory.
_LOCK = threading.Lock()


class _Argument(ctypes.Structure):
    _fields_ = [
        ("address", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("kind", ctypes.c_uint32),
        ("element", ctypes.c_uint32),
    ]


class _Request(ctypes.Structure):
    _fields_ = [
        ("entry", ctypes.c_void_p),
        ("arguments", ctypes.POINTER(_Argument)),
        ("argument_count", ctypes.c_uint32),
        ("grid", ctypes.c_uint32 * 3),
        ("group", ctypes.c_uint32 * 3),
        ("checked", ctypes.c_uint32),
    ]


class _Fault(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_uint32),
        ("shared", ctypes.c_uint32),
        ("index", ctypes.c_int32),
        ("bytes", ctypes.c_uint32),
        ("write", ctypes.c_uint32),
        ("other_write", ctypes.c_uint32),
        ("element", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("offset", ctypes.c_int64),
        ("size", ctypes.c_uint64),
        ("thread", ctypes.c_uint32 * 3),
        ("other", ctypes.c_uint32 * 3),
    ]


@functools.cache
def _runtime(cache: Path | None) -> ctypes.CDLL:
    # Kernels are linked to the runtime in their folder; each runtime has its own state.
    library = ctypes.CDLL(str(toolchain.runtime_library(cache)))
    library.conform_run.argtypes = [ctypes.POINTER(_Request), ctypes.POINTER(_Fault)]
    library.conform_run.restype = ctypes.c_uint32
    return library


def run(
    entry: int,
    signature: Signature,
    memory: Sequence[Buffer],
    grid: Grid,
    group: Grid,
    *,
    checked: bool,
    cache: Path | None = None,
) -> None:
    """Run one dispatch.

    Args:
        entry: address of the kernel's entry.
        memory: memory of each argument, by slot.
        checked: whether the entry belongs to a checked build.
        cache: folder of the entry's compiled library.

    Raises:
        KernelFault: the kernel violated a rule of Metal.
        HostMemoryError: memory cannot be mapped.
    """
    parameters = signature.arguments
    count = parameters[-1].slot + 1 if parameters else 0
    table = (_Argument * max(count, 1))()
    for parameter, buffer in zip(parameters, memory, strict=True):
        table[parameter.slot] = _Argument(
            buffer.address,
            buffer.nbytes,
            _SCATTERED if parameter.scattered else _KINDS[parameter.kind],
            parameter.element,
        )
    request = _Request(
        entry, table, count, (ctypes.c_uint32 * 3)(*grid), (ctypes.c_uint32 * 3)(*group), checked
    )
    fault = _Fault()
    with _LOCK:
        kind = _runtime(cache).conform_run(ctypes.byref(request), ctypes.byref(fault))
    if kind:
        _raise(fault, signature)


def _raise(fault: _Fault, signature: Signature) -> NoReturn:
    name = signature.name
    thread = (fault.thread[0], fault.thread[1], fault.thread[2])
    at = f"kernel {name}, thread {thread}"
    if fault.kind == 5:
        raise BarrierDivergence(
            f"{at} has ended while others wait at a barrier", kernel=name, thread=thread
        )
    if fault.kind == 6:
        raise IntegerDivisionByZero(f"{at} divides an integer by zero", kernel=name, thread=thread)
    if fault.kind == 7:
        raise ThreadgroupMemoryExceeded(
            f"kernel {name} takes {fault.size} bytes of threadgroup memory, 32768 are available",
            kernel=name,
        )
    if fault.kind == 8:
        raise HostMemoryError(f"kernel {name}: this process cannot map enough memory")
    buffer, element = _buffer(fault, signature)
    index = fault.offset // element if buffer else None
    access = f"{'writes' if fault.write else 'reads'} {buffer or 'unknown memory'}"
    if buffer:
        access += f"[{index}]"
    size = f"{fault.size // element} elements"
    error: type[KernelFault]
    if fault.kind == 1:
        error, why = OutOfBounds, f"which has {size}" if buffer else "outside of every buffer"
    elif fault.kind == 2:
        error, why = DataRace, _race(fault)
    elif fault.kind == 9:
        error, why = LostWrite, "which no thread of its threadgroup reads"
    elif fault.kind == 3:
        error, why = ReadOnlyWrite, "which is constant"
    else:
        error, why = UninitializedRead, "which its threadgroup has not written"
    raise error(f"{at} {access}, {why}", kernel=name, buffer=buffer, index=index, thread=thread)


def _race(fault: _Fault) -> str:
    done = "wrote" if fault.other_write else "read"
    if fault.other[0] == _UNKNOWN:
        return f"which another thread {done} without a barrier between"
    other = (fault.other[0], fault.other[1], fault.other[2])
    return f"which thread {other} {done} without a barrier between"


def _buffer(fault: _Fault, signature: Signature) -> tuple[str | None, int]:
    if fault.index < 0:
        return None, 1
    if fault.shared:
        return signature.shared[fault.index], fault.element
    slots: dict[int, Parameter] = {item.slot: item for item in signature.arguments}
    parameter = slots[fault.index]
    return parameter.name, parameter.element
