"""Who executes the kernel calls that a program leaves around its delegates.

:class:`RuntimeKernels` takes the kernels of the installed ExecuTorch runtime: a kernel call
becomes a program of its own (:mod:`~harness.execution.native.runtime_call`), with the same operator
and the same declarations of its arguments, which the runtime loads once and then executes in the
interpreter's memory. So an operator that no delegate took has the vendor's numerics, and the
vendor's errors; where the runtime has no such kernel, the program is refused, as the runtime
refuses it (error 0x14).
:class:`AtenKernels` takes ATen's out-variants, whatever the runtime has.

Operators that compute sizes or alias memory have no numerics: both sets take what torch has
registered for them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from executorch.exir import schema

from harness.errors import MissingKernels, ProgramError
from harness.execution.native.runtime_call import RuntimeCall
from harness.execution.operators import find_missing_kernels, is_dynamic, resolve_operator
from harness.execution.program import Program
from harness.execution.validation import torch_dtype
from harness.vendors.torch import OpOverload

KernelHandle = Callable[[list[Any]], None]
"""Executes one kernel call: gets its arguments as the plan lists them, lists resolved, and writes
into its outputs. A tensor that is to have another shape is restrided in place; a result that is
no tensor, or that aliases another value, is replaced in the list."""

# These compute sizes, and et_view aliases memory.
_SIZES = ("executorch_prim::", "aten::sym_size")

# How map and scan stack their results: it exists in the runtime alone.
_COPY_INDEX = "executorch_prim::et_copy_index"


class Kernels(Protocol):
    """A set of kernels."""

    def load(self, program: Program, call: schema.KernelCall) -> KernelHandle:
        """How to execute one kernel call of a program.

        Raises:
            ProgramError: the set has no such kernel.
        """
        ...


class AtenKernels:
    """ATen's out-variants: for tests and for backends that are not a vendor's."""

    def load(self, program: Program, call: schema.KernelCall) -> KernelHandle:
        """See :class:`Kernels`."""
        operator = program.plan.operators[call.op_index]
        dynamic = [is_dynamic(program.plan.values[index].val) for index in call.args]
        if operator.name == _COPY_INDEX:
            return functools.partial(_copy_index, dynamic[0])
        if (kernel := resolve_operator(operator.name, operator.overload)) is None:
            return _view
        return functools.partial(_call_aten, kernel, dynamic)


class RuntimeKernels:
    """The kernels of the ExecuTorch runtime of this host."""

    def load(self, program: Program, call: schema.KernelCall) -> KernelHandle:
        """See :class:`Kernels`.

        Raises:
            MissingKernels: the runtime lacks one that the program calls, be it here or elsewhere.
        """
        if missing := find_missing_kernels(program.plan):
            raise MissingKernels(missing)
        operator = program.plan.operators[call.op_index]
        if operator.name.startswith(_SIZES):
            return AtenKernels().load(program, call)
        return RuntimeCall(program, call)


def _view(arguments: list[Any]) -> None:
    try:
        source, size, _ = arguments
        arguments[-1] = source.view(size)
    except (RuntimeError, TypeError, ValueError, AttributeError) as error:
        raise ProgramError(f"kernel executorch_prim::et_view: {error}") from error


def _copy_index(dynamic: bool, arguments: list[Any]) -> None:
    """Write a row of a stack; one whose length is not fixed ends with the row."""
    try:
        stack, row, index = arguments
        if dynamic:
            stack.as_strided_([index + 1, *row.shape], [row.numel(), *row.stride()])
        stack[index].copy_(row)
    except (RuntimeError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ProgramError(f"kernel {_COPY_INDEX}: {error}") from error


def _call_aten(kernel: OpOverload, dynamic: Sequence[bool], arguments: list[Any]) -> None:
    # The runtime's quantized kernels walk the memory, whatever the dim order.
    by_memory = kernel._schema.name.startswith("quantized_decomposed::")
    parameters = kernel._schema.arguments
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for parameter, given, resized in zip(parameters, arguments, dynamic, strict=False):
        value = _as_declared(str(parameter.real_type), given)
        if isinstance(value, torch.Tensor):
            if parameter.is_out and resized:
                # Emptied first, so that the kernel resizes it to the actual shape in place.
                value.as_strided_([0], [1])
            if by_memory:
                value = value.permute(value.dim_order())
        if parameter.kwarg_only:
            named[parameter.name] = value
        else:
            positional.append(value)
    try:
        result = kernel(*positional, **named)
    except Exception as error:
        # Some are Python functions, which raise whatever.
        raise ProgramError(f"kernel {kernel._schema.name}: {error}") from error
    if len(arguments) > len(parameters) and not any(p.is_out for p in parameters):
        arguments[-1] = result


def _as_declared(declared: str, value: Any) -> Any:
    """Integers that stand for a dtype, layout or memory format become one."""
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if "ScalarType" in declared:
        return torch_dtype(value)
    if "MemoryFormat" in declared:
        if value not in _MEMORY_FORMATS:
            raise ProgramError(f"unknown memory format {value}")
        return _MEMORY_FORMATS[value]
    if "Layout" in declared:
        return torch.strided
    return value


_MEMORY_FORMATS = {
    0: torch.contiguous_format,
    1: torch.preserve_format,
    2: torch.channels_last,
    3: torch.channels_last_3d,
}
