"""The runtime's functions for shaders: a kernel, its arguments, its dispatch.

Source: ``backends/apple/metal/runtime/shims/shim_mps.mm`` and ``et_metal.mm``. Kernels run at once,
in order; on the device they run later, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from backends.metal.cpp.syntax import WrapperError
from backends.metal.host import Buffer, Kernel, dispatch_array, dispatch_single
from backends.metal.host.launch import Grid
from backends.metal.machine.memory import CPU, Tensor
from backends.metal.machine.values import Closure


class EncodingError(WrapperError):
    """A kernel is dispatched without encoding or with wrong arguments."""


class Encoder:
    """A kernel's handle.

    Args:
        name: name of its library in the wrapper.
        kernel: compiled on demand.
        checked: report bad accesses and races.
    """

    def __init__(self, name: str, kernel: Kernel, checked: bool) -> None:
        self.name = name
        self.kernel = kernel
        self.checked = checked
        self.arguments: dict[int, Tensor | int] | None = None

    def __str__(self) -> str:
        return self.name

    def start(self) -> None:
        """Begin to encode, without arguments."""
        self.arguments = {}

    def set(self, index: int, value: Tensor | int) -> None:
        """Set an argument: a tensor's memory, or a 64-bit integer."""
        if self.arguments is None:
            raise EncodingError(f"{self.name} gets argument {index} while nothing is encoded")
        self.arguments[index] = value

    def dispatch(self, grid: Grid, group: Grid) -> None:
        """Run the kernel with the arguments set, and end the encoding."""
        if self.arguments is None:
            raise EncodingError(f"{self.name} is dispatched while nothing is encoded")
        given, self.arguments = self.arguments, None
        slots = [parameter.slot for parameter in self.kernel.signature.arguments]
        if sorted(given) != slots:
            raise EncodingError(f"{self.name} takes arguments {slots} and is given {sorted(given)}")
        values = [_bound(given[slot]) for slot in slots]
        self.kernel.dispatch(values, grid, group, checked=self.checked)


def _bound(value: Tensor | int) -> object:
    if not isinstance(value, Tensor):
        return value
    if value.device != CPU:
        return Buffer(value.address, value.bound, value.storage.data)
    # The runtime passes host memory by value, so a kernel's writes to it are lost.
    copied = value.storage.data.clone()
    return Buffer(copied.data_ptr() + value.start, value.nbytes, copied)


def _array(values: Sequence[int], count: int) -> Sequence[int]:
    if len(values) < count:
        raise EncodingError(f"{count} dimensions of {list(values)}")
    return values[:count]


def single(encoder: Encoder, length: int, group: int | None = None) -> None:
    """Dispatch along one dimension."""
    encoder.dispatch(*dispatch_single(length, group, encoder.kernel.max_threads))


def array(
    encoder: Encoder,
    lengths: Sequence[int],
    count: int,
    group: Sequence[int] | None = None,
    group_count: int = 0,
) -> None:
    """Dispatch along up to three dimensions."""
    sizes = None if group is None else _array(group, group_count)
    grid = dispatch_array(_array(lengths, count), sizes, encoder.kernel.max_threads)
    encoder.dispatch(*grid)


def run_command_block(encoder: Encoder, callback: str, body: Closure) -> None:
    """Run the wrapper's lambda, which encodes and dispatches."""
    body.interpreter.invoke(body, encoder)


SHADER_SHIMS: Mapping[str, Callable[..., Any]] = {
    "aoti_torch_mps_start_encoding": Encoder.start,
    "aoti_torch_mps_set_arg_tensor": Encoder.set,
    "aoti_torch_mps_set_arg_int": Encoder.set,
    "aoti_torch_mps_dispatch_single": single,
    "aoti_torch_mps_dispatch_single_with_group_size": single,
    "aoti_torch_mps_dispatch_array": array,
    "aoti_torch_mps_dispatch_array_with_group_size": array,
    "aoti_torch_mps_run_command_block": run_command_block,
}
"""Implementations by the C function's name."""
