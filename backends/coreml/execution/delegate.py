"""Execute a CoreML payload as a delegate, with tensors passed as the vendor's runtime does.

Source: ``coreml_backend_delegate.mm``, ``multiarray.mm``, ``ETCoreMLModel.mm`` and
``ETCoreMLModelManager.mm`` in ``backends/apple/coreml/runtime/delegate`` of executorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from backends.coreml.execution.executor import MilExecutor, MilKernel, MilObserver
from backends.coreml.payload import reader
from backends.coreml.payload.program import MilFeature
from harness import ProgramError
from harness.backend_api import DelegateHandle, DelegatePayload

# get_data_type in coreml_backend_delegate.mm.
_PASSED = frozenset(
    (
        torch.bool,
        torch.uint8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.float32,
        torch.float64,
    )
)


def load(payload: DelegatePayload) -> DelegateHandle:
    """Read a payload and return the function that executes it.

    Raises:
        ProgramError: the payload is malformed.
        UnsupportedProgram: the program has an operation without a kernel.
    """
    return make_handle(make_executor(payload))


def make_executor(
    payload: DelegatePayload,
    kernels: Mapping[str, MilKernel] | None = None,
    observer: MilObserver | None = None,
) -> MilExecutor:
    """Make the executor of a payload.

    Args:
        payload: the payload.
        kernels: other kernels than the usual ones.
        observer: as for :class:`MilExecutor`.
    """
    if kernels is None:
        from backends.coreml.kernels import KERNELS

        kernels = KERNELS
    return MilExecutor(reader.load(payload.data, payload.named_data), kernels, observer)


def make_handle(executor: MilExecutor) -> DelegateHandle:
    """Wrap an executor as the function that the interpreter calls."""
    program = executor.program
    inputs, outputs = len(program.inputs), len(program.outputs)

    def call(arguments: list[Any]) -> None:
        if len(arguments) != inputs + outputs:
            raise ProgramError(
                f"the CoreML model has {inputs} inputs and {outputs} outputs, the program passes "
                f"{len(arguments)} arguments"
            )
        given = [
            take_argument(feature, value)
            for feature, value in zip(program.inputs, arguments, strict=False)
        ]
        results = executor(given)
        for feature, result, planned in zip(
            program.outputs, results, arguments[inputs:], strict=True
        ):
            store(feature, result, planned)

    return call


def take_argument(feature: MilFeature, value: Any) -> torch.Tensor:
    """Return an argument as the array that the model gets: its dtype, and at least one dimension.

    Raises:
        ProgramError: the delegate passes no such value.
    """
    where = f"CoreML input {feature.name!r}"
    if not isinstance(value, torch.Tensor):
        raise ProgramError(f"{where} is {value!r}: the delegate passes tensors only")
    _require_passed(where, value)
    array = value.reshape(1) if value.dim() == 0 else value
    # A copy, element by element and converted as C++ converts (copy_value in multiarray.mm). Model
    # and program may share memory, and a kernel may return its argument.
    return array.to(feature.dtype, copy=True).contiguous()


def store(feature: MilFeature, result: torch.Tensor, planned: Any) -> None:
    """Copy a result into the program's planned tensor.

    A planned tensor of another shape is resized to the result's. Where the dtypes are equal, the
    model writes into the planned memory with its strides (output backings); else the delegate
    copies, and the memory becomes row-major whatever the planned dim order (``resize``).

    Raises:
        ProgramError: the result does not fit the planned tensor.
    """
    where = f"CoreML output {feature.name!r}"
    if not isinstance(planned, torch.Tensor):
        raise ProgramError(f"{where} is a tensor, the program plans {planned!r}")
    _require_passed(where, planned)
    array = result.to(feature.dtype)
    if planned.dim() == 0 and array.numel() == 1:
        planned.copy_(array.reshape(()))
        return
    if array.dim() == 0:
        array = array.reshape(1)
    if array.dim() != planned.dim():
        raise ProgramError(
            f"{where} has shape {list(array.shape)}, the program plans {list(planned.shape)}"
        )
    if array.shape != planned.shape:
        size = array.numel() * planned.element_size()
        if size > planned.untyped_storage().nbytes():
            raise ProgramError(
                f"{where} has shape {list(array.shape)}, more than the program plans for it"
            )
        planned.as_strided_(array.shape, array.contiguous().stride())
    if feature.dtype == planned.dtype:
        planned.copy_(array)
    else:
        row_major = array.contiguous()
        planned.as_strided(row_major.shape, row_major.stride()).copy_(row_major)


def _require_passed(where: str, tensor: torch.Tensor) -> None:
    if tensor.dtype not in _PASSED:
        raise ProgramError(f"{where} is {tensor.dtype}: the delegate passes no such tensor")
