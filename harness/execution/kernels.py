"""Kernels for the fallback nodes of a program.

:class:`RuntimeKernels` uses the kernels of the installed ExecuTorch runtime. It turns a kernel call
into a program with one instruction (:mod:`~harness.execution.native.kernel_call`), with the same
operator and argument declarations. The runtime loads this program once and executes it in the
interpreter's memory. A fallback node therefore has the vendor's numerics and errors; if the runtime
lacks the kernel, the program is rejected, as the runtime rejects it (error 0x14).
:class:`AtenKernels` uses ATen's out-variants, whether the runtime has the kernel or not.
:class:`ReferenceKernels` uses a vendor's implementations in Python of its own operators.

Operators that compute sizes or alias memory have no numerics: both use torch's implementation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from executorch.exir import schema

from harness.errors import MissingKernels, ProgramError
from harness.execution.native.kernel_call import NativeKernelCall
from harness.execution.operators import (
    find_missing_kernels,
    is_dynamic,
    kernel_name,
    resolve_operator,
)
from harness.execution.program import Program, TensorSpec
from harness.execution.validation import torch_dtype
from harness.vendors.torch import OpOverload

KernelHandle = Callable[[list[Any]], None]
"""Executes one kernel call: gets the arguments in the plan's order, with lists resolved, and writes
into its outputs. It restrides a tensor in place to change its shape. It replaces a result in the
list if that is no tensor, or aliases another value."""

# Operators that compute sizes; et_view aliases memory.
_SIZE_OPERATORS = ("executorch_prim::", "aten::sym_size")

# Stacks the results of map and scan; torch has no such operator.
_COPY_INDEX = "executorch_prim::et_copy_index"


class Kernels(Protocol):
    """A set of kernels."""

    def load(self, program: Program, call: schema.KernelCall) -> KernelHandle:
        """Load a kernel call of a program.

        Raises:
            ProgramError: this set has no such kernel.
        """
        ...


class AtenKernels:
    """ATen's out-variants, for tests and for backends without a vendor runtime."""

    def load(self, program: Program, call: schema.KernelCall) -> KernelHandle:
        """See :class:`Kernels`."""
        operator = program.plan.operators[call.op_index]
        dynamic = [is_dynamic(program.plan.values[index].val) for index in call.args]
        if operator.name == _COPY_INDEX:
            return functools.partial(_call_copy_index, dynamic[0])
        if (kernel := resolve_operator(operator.name, operator.overload)) is None:
            return _call_view
        return functools.partial(_call_aten, kernel, dynamic)


class ReferenceKernels:
    """The implementations in Python that a vendor registers with torch for its own operators.

    Programs call the out-variant of an operator; these implementations are of the functional one.
    """

    def load(self, program: Program, call: schema.KernelCall) -> KernelHandle:
        """See :class:`Kernels`."""
        operator = program.plan.operators[call.op_index]
        out_variant = resolve_operator(operator.name, operator.overload)
        functional = resolve_operator(operator.name, "default")
        if out_variant is None or functional is None:
            raise ProgramError(f"kernel {operator.name} only aliases memory")
        specs = {
            place: program.get_tensor_spec(call.args[place])
            for place, parameter in enumerate(out_variant._schema.arguments)
            if parameter.is_out
        }
        return functools.partial(_call_functional, out_variant, functional, specs)


class RuntimeKernels:
    """The kernels of the ExecuTorch runtime of this host, and those of further libraries.

    Args:
        libraries: kernels by the namespace of their operators; used where the runtime lacks them.
    """

    def __init__(self, libraries: Mapping[str, Kernels] | None = None) -> None:
        self._libraries = dict(libraries or {})

    def load(self, program: Program, call: schema.KernelCall) -> KernelHandle:
        """See :class:`Kernels`.

        Raises:
            MissingKernels: the runtime lacks a kernel of the program, in this call or another one.
        """
        missing = find_missing_kernels(program.plan)
        if lacking := [name for name in missing if get_namespace(name) not in self._libraries]:
            raise MissingKernels(lacking)
        operator = program.plan.operators[call.op_index]
        if kernel_name(operator) in missing:
            return self._libraries[get_namespace(operator.name)].load(program, call)
        if operator.name.startswith(_SIZE_OPERATORS):
            return AtenKernels().load(program, call)
        return NativeKernelCall(program, call)


def _call_view(arguments: list[Any]) -> None:
    try:
        source, size, _ = arguments
        arguments[-1] = source.view(size)
    except (RuntimeError, TypeError, ValueError, AttributeError) as error:
        raise ProgramError(f"kernel executorch_prim::et_view: {error}") from error


def _call_copy_index(dynamic: bool, arguments: list[Any]) -> None:
    """Write a row of a stack; a stack of dynamic length ends with this row."""
    try:
        stack, row, index = arguments
        if dynamic:
            stack.as_strided_([index + 1, *row.shape], [row.numel(), *row.stride()])
        stack[index].copy_(row)
    except (RuntimeError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ProgramError(f"kernel {_COPY_INDEX}: {error}") from error


def _call_aten(kernel: OpOverload, dynamic: Sequence[bool], arguments: list[Any]) -> None:
    # The runtime's quantized kernels ignore the dim order and iterate over memory.
    by_memory = kernel._schema.name.startswith("quantized_decomposed::")
    parameters = kernel._schema.arguments
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for parameter, given, resized in zip(parameters, arguments, dynamic, strict=False):
        value = _convert_argument(str(parameter.real_type), given)
        if isinstance(value, torch.Tensor):
            if parameter.is_out and resized:
                # Empty it, so that the kernel resizes it to the actual shape in place.
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
        # Kernels in Python raise any exception.
        raise ProgramError(f"kernel {kernel._schema.name}: {error}") from error
    if len(arguments) > len(parameters) and not any(p.is_out for p in parameters):
        arguments[-1] = result


def _call_functional(
    out_variant: OpOverload,
    functional: OpOverload,
    specs: Mapping[int, TensorSpec],
    arguments: list[Any],
) -> None:
    name = functional._schema.name
    values = {
        parameter.name: _convert_argument(str(parameter.real_type), given)
        for parameter, given in zip(out_variant._schema.arguments, arguments, strict=False)
    }
    try:
        result = functional(
            **{each.name: values[each.name] for each in functional._schema.arguments}
        )
    except Exception as error:
        # Kernels in Python raise any exception.
        raise ProgramError(f"kernel {name}: {error}") from error
    results = result if isinstance(result, tuple | list) else (result,)
    for (place, spec), value in zip(specs.items(), results, strict=True):
        planned = arguments[place]
        if spec.is_dynamic:
            planned.as_strided_(value.shape, spec.compute_strides(value.shape))
        if (planned.dtype, planned.shape) != (value.dtype, value.shape):
            raise ProgramError(
                f"kernel {name} returned {value.dtype}{tuple(value.shape)} for a planned tensor "
                f"{planned.dtype}{tuple(planned.shape)}"
            )
        planned.copy_(value)


def get_namespace(kernel: str) -> str:
    """Return the namespace of a kernel's name, such as ``aten``."""
    return kernel.partition("::")[0]


def _convert_argument(declared: str, value: Any) -> Any:
    """Convert an integer that encodes a dtype, layout or memory format."""
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
