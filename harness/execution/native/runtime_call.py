"""A kernel call as a program of its own, which the ExecuTorch runtime executes in our memory."""

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
from harness.execution.operators import is_dynamic, kernel_name, resolve_operator
from harness.execution.program import Program
from harness.execution.validation import INDEX_LISTS
from harness.vendors.torch import OpOverload

# Programs kept of a call whose numbers change, such as a position; the oldest is dropped.
_KEPT_PROGRAMS = 64


class RuntimeCall:
    """One kernel call, as a program of its own in the runtime.

    Tensors are inputs of that program, and it runs in their memory: inputs without planned
    memory share that of the caller. Tensors whose shape the kernel decides are its outputs and
    are copied. Numbers are constants of it, because the runtime refuses an input number that
    differs from the declared one; so there is one program for each set of numbers.
    """

    def __init__(self, program: Program, call: schema.KernelCall) -> None:
        """Check the call's arguments; it is loaded when its numbers are known.

        Raises:
            ProgramError: torch knows no such operator, or the arguments do not fit it.
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
        # What works in place returns its operand; what writes nothing returns a number.
        self._in_place = (
            writes[0] if has_result and writes and not parameters[writes[0]].is_out else None
        )
        self._number = call.args[-1] if has_result and not writes else None
        self._loaded: dict[str, tuple[LoadedPlan, list[int]]] = {}

    def __call__(self, arguments: list[Any]) -> None:
        """Execute; see :data:`harness.execution.kernels.KernelHandle`.

        Raises:
            ProgramError: the runtime refuses or fails.
        """
        current = self._current(arguments)
        numbers = {
            index: value for index, value in current.items() if not isinstance(value, torch.Tensor)
        }
        # By text: 1, 1.0 and True are equal, nan is not.
        if (key := repr(numbers)) not in self._loaded:
            if len(self._loaded) >= _KEPT_PROGRAMS:
                del self._loaded[next(iter(self._loaded))]
            self._loaded[key] = self._load(numbers)
        execute, inputs = self._loaded[key]
        try:
            results = execute([to_shareable(current[index]) for index in inputs])
        except RuntimeError as error:
            raise ProgramError(f"kernel {kernel_name(self._operator)}: {error}") from error
        for index, result in zip(self._resized, results, strict=False):
            strides = stride_from_dim_order(list(result.shape), self._declared[index].dim_order)
            current[index].as_strided_(result.shape, strides).copy_(result)
        if self._number is not None:
            arguments[-1] = results[-1]
        if self._in_place is not None:
            arguments[-1] = arguments[self._in_place]

    def _current(self, arguments: list[Any]) -> dict[int, Any]:
        """What the values that the call reads or writes hold now, list items one by one.

        Raises:
            ProgramError: a number is where a tensor was declared, or the reverse.
        """
        current: dict[int, Any] = {}
        for index, value in zip(self._operands, arguments, strict=False):
            if isinstance(self._declared[index], INDEX_LISTS):
                items = [item for item in value if item is not None]
                current.update(zip(self._leaves(index), items, strict=True))
            else:
                current[index] = value
        for index, value in current.items():
            # The runtime ends the process when a kernel asks for what is not there.
            if isinstance(value, torch.Tensor) != isinstance(self._declared[index], schema.Tensor):
                raise ProgramError(
                    f"value {index}, declared {type(self._declared[index]).__name__}, holds a "
                    f"{type(value).__name__} when kernel {kernel_name(self._operator)} is called"
                )
        return current

    def _leaves(self, index: int) -> list[int]:
        """The value itself, or the items of a list of values."""
        value = self._declared[index]
        if isinstance(value, INDEX_LISTS):
            return [item for item in value.items if item >= 0]
        return [index]

    def _load(self, numbers: dict[int, Any]) -> tuple[LoadedPlan, list[int]]:
        """The call as a loaded program, and which values are its inputs."""
        own: dict[int, int] = {}
        values: list[schema.EValue] = []

        def place(index: int) -> int:
            if index not in own:
                value = clear_allocation(self._declared[index])
                if isinstance(value, INDEX_LISTS):
                    value = type(value)(
                        [place(item) if item >= 0 else item for item in value.items]
                    )
                elif index in numbers and not isinstance(value, _VALUE_LISTS):
                    value = _number(numbers[index])
                own[index] = len(values)
                values.append(schema.EValue(value))
            return own[index]

        args = [place(index) for index in self._args]
        tensors = dict.fromkeys(leaf for index in self._operands for leaf in self._leaves(index))
        inputs = [
            index
            for index in tensors
            if isinstance(self._declared[index], schema.Tensor) and index not in self._resized
        ]
        outputs = [*self._resized, *([] if self._number is None else [self._number])]
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
        return _loaded_plan(plan), inputs


# What a kernel may be handed for a parameter, by the schema's name of its type.
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
    """Refuse arguments that do not fit the parameters: the runtime unpacks them unchecked.

    Raises:
        ProgramError: too few or too many, or of another type.
    """
    name = kernel._schema.name
    parameters = kernel._schema.arguments
    # The result has a place of its own after the parameters, also where it is one of them.
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


# Writing a plan down takes half a millisecond, and models repeat their operators: equal calls
# share one, whichever program they are of.
_SHARED: OrderedDict[str, LoadedPlan] = OrderedDict()
_SHARED_PLANS = 256
_SHARING = threading.Lock()


def _loaded_plan(plan: schema.ExecutionPlan) -> LoadedPlan:
    """The plan, loaded now or before.

    Raises:
        ProgramError: the runtime refuses it.
    """
    key = repr(plan)
    with _SHARING:
        if key not in _SHARED:
            _SHARED[key] = LoadedPlan(plan, f"kernel {kernel_name(plan.operators[0])}")
        _SHARED.move_to_end(key)
        while len(_SHARED) > _SHARED_PLANS:
            _SHARED.popitem(last=False)
        return _SHARED[key]


def _number(value: Any) -> schema.KernelTypes:
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
