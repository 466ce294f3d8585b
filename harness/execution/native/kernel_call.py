"""A kernel call as a separate program, which the ExecuTorch runtime executes in our memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from executorch.exir import schema
from executorch.exir.tensor import stride_from_dim_order

from harness.errors import ProgramError
from harness.execution.native.loaded_plan import LoadedPlan, clear_allocation, to_shareable
from harness.execution.native.runtime_log import capture_runtime_log
from harness.execution.operators import is_dynamic, kernel_name, resolve_operator
from harness.execution.program import Program
from harness.execution.validation import INDEX_LISTS
from harness.vendors.torch import OpOverload

# A call whose numbers change, such as a position, keeps this many programs, the newest ones.
_MAX_PROGRAMS = 64


class NativeKernelCall:
    """One kernel call, as a separate program in the runtime.

    Tensors are inputs of that program, which runs in their memory: inputs without planned memory
    share that of the caller. Tensors whose shape the kernel computes are outputs, and are copied.
    Numbers are constants, because the runtime rejects an input number that differs from the
    declared one; therefore each set of numbers has its own program.
    """

    def __init__(self, program: Program, call: schema.KernelCall) -> None:
        """Check the call's arguments; :meth:`__call__` loads the program.

        Raises:
            ProgramError: torch has no such operator, or the arguments do not fit its schema.
        """
        self._operator = program.plan.operators[call.op_index]
        self._declared = [value.val for value in program.plan.values]
        self._args = call.args
        kernel = resolve_operator(self._operator.name, self._operator.overload)
        if kernel is None:
            raise ProgramError(f"{self._operator.name} only aliases")
        parameters = kernel._schema.arguments
        _check_arguments(kernel, [self._declared[index] for index in call.args])
        self._operands = call.args[: len(parameters)]
        writes = [
            number
            for number, parameter in enumerate(parameters)
            if parameter.alias_info is not None and parameter.alias_info.is_write
        ]
        self._resized = [
            leaf
            for number in writes
            if parameters[number].is_out
            for leaf in self._leaves(call.args[number])
            if is_dynamic(self._declared[leaf])
        ]
        has_result = len(call.args) > len(parameters)
        # An in-place operator returns its operand; one that writes nothing returns a number.
        self._in_place = (
            writes[0] if has_result and writes and not parameters[writes[0]].is_out else None
        )
        self._result_number = call.args[-1] if has_result and not writes else None
        self._loaded: dict[str, tuple[LoadedPlan, list[int]]] = {}

    def __call__(self, arguments: list[Any]) -> None:
        """Execute; see :data:`harness.execution.kernels.KernelHandle`.

        Raises:
            ProgramError: the runtime rejects the call, or fails.
        """
        current = self._read_values(arguments)
        numbers = {
            index: value for index, value in current.items() if not isinstance(value, torch.Tensor)
        }
        # The key is text: 1, 1.0 and True are equal, and nan is not equal to itself.
        if (key := repr(numbers)) not in self._loaded:
            if len(self._loaded) >= _MAX_PROGRAMS:
                del self._loaded[next(iter(self._loaded))]
            self._loaded[key] = self._load(numbers)
        execute, inputs = self._loaded[key]
        given = [to_shareable(current[index]) for index in inputs]
        try:
            results = execute(given)
        except RuntimeError as error:
            log = capture_runtime_log(lambda: execute(given))
            says = f"; the runtime says: {log}" if log else ""
            raise ProgramError(f"kernel {kernel_name(self._operator)}: {error}{says}") from error
        for index, result in zip(self._resized, results, strict=False):
            strides = stride_from_dim_order(list(result.shape), self._declared[index].dim_order)
            current[index].as_strided_(result.shape, strides).copy_(result)
        if self._result_number is not None:
            arguments[-1] = results[-1]
        if self._in_place is not None:
            arguments[-1] = arguments[self._in_place]

    def _read_values(self, arguments: list[Any]) -> dict[int, Any]:
        """Return the current values of the call's operands, with items of lists as separate values.

        Raises:
            ProgramError: a value is a number where the plan declares a tensor, or the reverse.
        """
        current: dict[int, Any] = {}
        for index, value in zip(self._operands, arguments, strict=False):
            if isinstance(self._declared[index], INDEX_LISTS):
                items = [item for item in value if item is not None]
                current.update(zip(self._leaves(index), items, strict=True))
            else:
                current[index] = value
        for index, value in current.items():
            # The runtime ends the process when a kernel reads a value as another type.
            if isinstance(value, torch.Tensor) != isinstance(self._declared[index], schema.Tensor):
                raise ProgramError(
                    f"value {index}, declared {type(self._declared[index]).__name__}, holds a "
                    f"{type(value).__name__} when kernel {kernel_name(self._operator)} is called"
                )
        return current

    def _leaves(self, index: int) -> list[int]:
        """Return the index itself, or the item indices of a list."""
        value = self._declared[index]
        if isinstance(value, INDEX_LISTS):
            return [item for item in value.items if item >= 0]
        return [index]

    def _load(self, numbers: dict[int, Any]) -> tuple[LoadedPlan, list[int]]:
        """Load the call as a program; return it and the indices of its input values."""
        own: dict[int, int] = {}
        values: list[schema.EValue] = []

        def add_value(index: int) -> int:
            if index not in own:
                value = clear_allocation(self._declared[index])
                if isinstance(value, INDEX_LISTS):
                    value = type(value)(
                        [add_value(item) if item >= 0 else item for item in value.items]
                    )
                elif index in numbers and not isinstance(value, _VALUE_LISTS):
                    value = _create_number(numbers[index])
                own[index] = len(values)
                values.append(schema.EValue(value))
            return own[index]

        args = [add_value(index) for index in self._args]
        tensors = dict.fromkeys(leaf for index in self._operands for leaf in self._leaves(index))
        inputs = [
            index
            for index in tensors
            if isinstance(self._declared[index], schema.Tensor) and index not in self._resized
        ]
        outputs = [*self._resized, *([] if self._result_number is None else [self._result_number])]
        plan = schema.ExecutionPlan(
            name="forward",
            container_meta_type=schema.ContainerMetadata("", ""),
            values=values,
            inputs=[own[index] for index in inputs],
            outputs=[own[index] for index in outputs],
            chains=[schema.Chain([], [], [schema.Instruction(schema.KernelCall(0, args))], None)],
            operators=[self._operator],
            delegates=[],
            non_const_buffer_sizes=[0],
        )
        return _get_loaded_plan(plan), inputs


# Types of values that a kernel accepts for a parameter, by the schema's name of its type.
_ACCEPTED: dict[str, tuple[type, ...]] = {
    "Tensor": (schema.Tensor,),
    "List[Tensor]": (schema.TensorList,),
    "List[Optional[Tensor]]": (schema.OptionalTensorList,),
    "int": (schema.Int,),
    "ScalarType": (schema.Int,),
    "MemoryFormat": (schema.Int,),
    "number": (schema.Int, schema.Double, schema.Bool),
    "float": (schema.Double, schema.Int),
    "bool": (schema.Bool,),
    "str": (schema.String,),
    "List[int]": (schema.IntList,),
    "List[float]": (schema.DoubleList,),
    "List[bool]": (schema.BoolList,),
}


def _check_arguments(kernel: OpOverload, declared: Sequence[Any]) -> None:
    """Reject arguments that do not fit the parameters: the runtime does not check them.

    Raises:
        ProgramError: there are too few or too many arguments, or one has another type.
    """
    name = kernel._schema.name
    parameters = kernel._schema.arguments
    # The result has a separate argument after the parameters, even if it is one of them.
    if len(declared) - len(parameters) not in ((1,) if kernel._schema.returns else (0, 1)):
        raise ProgramError(
            f"kernel {name} takes {len(parameters)} arguments and a place for its result, the "
            f"program passes {len(declared)}"
        )
    for parameter, value in zip(parameters, declared, strict=False):
        spelled = str(parameter.real_type)
        plain = (
            spelled.removeprefix("Optional[").removesuffix("]")
            if (optional := spelled.startswith("Optional["))
            else spelled
        )
        accepted = _ACCEPTED.get(plain, (object,))
        if not isinstance(value, accepted) and not (optional and isinstance(value, schema.Null)):
            raise ProgramError(
                f"kernel {name} takes {spelled} for {parameter.name!r}, the program passes "
                f"{type(value).__name__}"
            )


_VALUE_LISTS = (schema.BoolList, schema.DoubleList)


# Serialization takes half a millisecond, and models repeat operators: equal calls of all programs
# share a loaded plan.
_SHARED: OrderedDict[str, LoadedPlan] = OrderedDict()
_SHARED_PLANS = 256
_SHARED_LOCK = threading.Lock()


def _get_loaded_plan(plan: schema.ExecutionPlan) -> LoadedPlan:
    """Return the loaded plan from the cache, or load it.

    Raises:
        ProgramError: the runtime does not load it.
    """
    key = repr(plan)
    with _SHARED_LOCK:
        if key not in _SHARED:
            _SHARED[key] = LoadedPlan(plan, f"kernel {kernel_name(plan.operators[0])}")
        _SHARED.move_to_end(key)
        while len(_SHARED) > _SHARED_PLANS:
            _SHARED.popitem(last=False)
        return _SHARED[key]


def _create_number(value: Any) -> schema.KernelTypes:
    match value:
        case None:
            return schema.Null()
        case bool():
            return schema.Bool(value)
        case int():
            return schema.Int(value)
        case float():
            return schema.Double(value)
        case str():
            return schema.String(value)
        case _:
            raise ProgramError(f"a kernel gets a {type(value).__name__}, which no program holds")
