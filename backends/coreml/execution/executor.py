"""Execute the function of a MIL program.

Loading decompresses the weights and makes a step of each operation; a call runs the steps on a
table of values by name. Names are unique within their scope, so that inner blocks use the same
table. A value that no later operation reads is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from backends.coreml.execution.compression import CONSTEXPR
from backends.coreml.payload.program import (
    MilBinding,
    MilBlock,
    MilConstant,
    MilListType,
    MilOperation,
    MilParameter,
    MilProgram,
    MilReference,
    MilStateType,
    MilTensorType,
)
from harness import ProgramError, UnsupportedProgram

MilKernel = Callable[..., Any]
"""Computes an operation: takes its inputs as keyword arguments and returns a tensor, or a list."""

MilObserver = Callable[[MilOperation, Sequence[Any]], None]
"""Called after each operation with its results."""

Values = dict[str, Any]
Step = Callable[[Values], Sequence[Any]]

# TupleInputType in coremltools' operation definitions: a single value is a tuple, too.
_TUPLES = {
    ("concat", "values"),
    ("stack", "values"),
    ("einsum", "values"),
    ("make_list", "elem_shape"),
    ("while_loop", "loop_vars"),
    ("reshape_like", "ref_tensors"),
    ("reshape_like", "begins"),
    ("reshape_like", "ends"),
    ("reshape_like", "end_masks"),
}

# The dtype of the result is that of a constant, which a Python number has lost.
_TYPED_BY_CONSTANTS = frozenset(("fill", "fill_like", "one_hot", "range_1d"))

# Far more than a real program runs; a loop of a hostile one can exceed it.
_MAX_STEPS = 1_000_000
MAX_BYTES = 2**33
"""Largest declared result of an operation, in bytes."""


class OperationError(ProgramError):
    """An operation failed; the message names the operation and the reason."""


class MilExecutor:
    """A loaded function. Its states persist between calls.

    Attributes:
        program: the program.
        states: the states by name. They are zeros at first: a model has no values of its states,
            and ``newState`` of ``MLModel`` makes zeros.
    """

    def __init__(
        self,
        program: MilProgram,
        kernels: Mapping[str, MilKernel],
        observer: MilObserver | None = None,
    ) -> None:
        """Decompress weights, and find the kernel of each operation.

        Args:
            program: a checked program.
            kernels: by the kind of operation.
            observer: called after each operation.

        Raises:
            UnsupportedProgram: an operation has no kernel.
            ProgramError: a weight cannot be decompressed.
        """
        self.program = program
        self.observer = observer
        self.states: dict[str, torch.Tensor] = {}
        for state in program.states:
            assert isinstance(state.type, MilStateType)
            self.states[state.name] = _make_zeros(state.name, state.type.wrapped)
        self._kernels = kernels
        self._constants: Values = {}
        self._steps = 0
        self._body = self._compile_block(program.function.body)

    def __call__(self, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Run the function.

        Args:
            arguments: tensors of the dtypes and shapes that the function declares, in the order of
                ``program.inputs``.

        Returns:
            tensors in the order of ``program.outputs``.

        Raises:
            ProgramError: an argument does not fit, or an operation failed; the message names it.
        """
        values: Values = dict(self._constants)
        types = {each.name: each.type for each in self.program.function.inputs}
        for feature, given in zip(self.program.inputs, arguments, strict=True):
            declared = types[feature.name]
            assert isinstance(declared, MilTensorType)
            if not declared.matches(tuple(given.shape)) or not feature.allows(tuple(given.shape)):
                raise ProgramError(
                    f"CoreML input {feature.name!r} has shape {list(given.shape)}, the model takes "
                    f"{declared}"
                )
            values[feature.name] = given.to(declared.dtype.storage)
        self._steps = 0
        returned = dict(zip(self.program.function.body.outputs, self._body(values), strict=True))
        return [
            _to_tensor(returned[feature.name], feature.name) for feature in self.program.outputs
        ]

    def _compile_block(self, block: MilBlock) -> Callable[[Values], list[Any]]:
        """Make a function that runs a block and returns its outputs."""
        steps: list[tuple[MilOperation, Step, tuple[str, ...]]] = []
        last_uses = _find_last_uses(block)
        for operation, unused in zip(block.operations, last_uses, strict=True):
            if operation.kind == "const":
                self._define_constant(operation)
            elif operation.kind in CONSTEXPR:
                self._decompress(operation)
            else:
                dropped = tuple(name for name in unused if name not in self._constants)
                steps.append((operation, self._compile(operation), dropped))

        def run(values: Values) -> list[Any]:
            self._steps += len(steps) + 1
            if self._steps > _MAX_STEPS:
                raise ProgramError(f"the CoreML program runs more than {_MAX_STEPS} operations")
            for operation, step, dropped in steps:
                try:
                    results = step(values)
                    _check_results(operation, results)
                except (OperationError, UnsupportedProgram):
                    raise
                except Exception as error:
                    reason = str(error).strip().partition("\n")[0] or type(error).__name__
                    raise OperationError(f"CoreML operation {operation}: {reason}") from error
                if self.observer is not None:
                    self.observer(operation, results)
                for parameter, result in zip(operation.outputs, results, strict=True):
                    values[parameter.name] = result
                for name in dropped:
                    values.pop(name, None)
            return [values[name] for name in block.outputs]

        return run

    def _define_constant(self, operation: MilOperation) -> None:
        value = operation.attributes.get("val")
        if value is None or len(operation.outputs) != 1:
            raise ProgramError(f"CoreML operation {operation} has no value")
        (output,) = operation.outputs
        if value.type != output.type:
            raise ProgramError(
                f"CoreML operation {operation} declares {output.type}, its value is {value.type}"
            )
        self._constants[output.name] = _unwrap(value)

    def _decompress(self, operation: MilOperation) -> None:
        """Add the results of a ``constexpr_*`` operation to the constants."""
        # They were attributes before iOS 18.
        given = {key: _unwrap(value) for key, value in operation.attributes.items()}
        for key, bindings in operation.inputs.items():
            given[key] = self._find_constant(operation, bindings)
        try:
            found = CONSTEXPR[operation.kind](**given)
        except Exception as error:
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            raise OperationError(f"CoreML operation {operation}: {reason}") from error
        results = found if isinstance(found, list) else [found]
        results = [
            _to_declared(result, output)
            for result, output in zip(results, operation.outputs, strict=False)
        ]
        _check_results(operation, results)
        for output, result in zip(operation.outputs, results, strict=True):
            self._constants[output.name] = result

    def _find_constant(self, operation: MilOperation, bindings: tuple[MilBinding, ...]) -> Any:
        if len(bindings) != 1:
            raise ProgramError(f"CoreML operation {operation} takes one value for each input")
        (binding,) = bindings
        if isinstance(binding, MilConstant):
            return _unwrap(binding)
        if binding.name not in self._constants:
            raise ProgramError(f"CoreML operation {operation}: {binding.name!r} is no constant")
        return self._constants[binding.name]

    def _compile(self, operation: MilOperation) -> Step:
        if operation.kind == "cond":
            return self._compile_cond(operation)
        if operation.kind == "while_loop":
            return self._compile_loop(operation)
        if operation.kind in ("read_state", "write_state"):
            return self._compile_state(operation)
        kernel = self._kernels.get(operation.kind)
        if kernel is None:
            raise UnsupportedProgram(f"the MIL operation {operation.kind} has no kernel here")
        readers = {
            key: _make_reader(bindings, (operation.kind, key) in _TUPLES)
            for key, bindings in operation.inputs.items()
        }
        is_list = [isinstance(each.type, MilListType) for each in operation.outputs] == [True]

        def step(values: Values) -> Sequence[Any]:
            found = kernel(**{key: read(values) for key, read in readers.items()})
            if operation.kind in _TYPED_BY_CONSTANTS:
                return [_to_declared(found, operation.outputs[0])]
            return found if isinstance(found, list | tuple) and not is_list else [found]

        return step

    def _compile_cond(self, operation: MilOperation) -> Step:
        predicate = _require_reader(operation, "pred")
        then, otherwise = map(self._compile_block, operation.blocks)

        def step(values: Values) -> Sequence[Any]:
            chosen = then if bool(predicate(values)) else otherwise
            return _to_runtime_values(chosen(values), operation.outputs)

        return step

    def _compile_loop(self, operation: MilOperation) -> Step:
        start = _require_reader(operation, "loop_vars", is_tuple=True)
        names = [[each.name for each in block.inputs] for block in operation.blocks]
        condition, body = map(self._compile_block, operation.blocks)
        if any(len(each) != len(operation.outputs) for each in names):
            raise ProgramError(f"CoreML operation {operation}: its blocks take other values")

        def step(values: Values) -> Sequence[Any]:
            carried = _to_runtime_values(start(values), operation.outputs)
            while True:
                values.update(zip(names[0], carried, strict=True))
                (proceeds,) = condition(values)
                if not bool(proceeds):
                    return carried
                values.update(zip(names[1], carried, strict=True))
                carried = _to_runtime_values(body(values), operation.outputs)

        return step

    def _compile_state(self, operation: MilOperation) -> Step:
        bindings = operation.inputs.get("input", ())
        if len(bindings) != 1 or not isinstance(bindings[0], MilReference):
            raise ProgramError(f"CoreML operation {operation} names no state")
        state = self.states[bindings[0].name]
        if operation.kind == "read_state":
            return lambda values: [state.clone()]
        source = _require_reader(operation, "data")

        def step(values: Values) -> Sequence[Any]:
            data = source(values)
            if data.shape != state.shape or data.dtype != state.dtype:
                raise ProgramError(f"a state of shape {list(state.shape)} is written with other")
            state.copy_(data)
            return []

        return step


def _find_last_uses(block: MilBlock) -> Iterator[list[str]]:
    """Yield for each operation the values of its block that nothing reads after it."""
    last: dict[str, int] = {}
    for at, operation in enumerate(block.operations):
        for each in operation.outputs:
            last[each.name] = at
        for name in _list_reads(operation):
            if name in last:
                last[name] = at
    for name in block.outputs:
        last.pop(name, None)
    unused: dict[int, list[str]] = {}
    for name, at in last.items():
        unused.setdefault(at, []).append(name)
    for at in range(len(block.operations)):
        yield unused.get(at, [])


def _list_reads(operation: MilOperation) -> Iterator[str]:
    for bindings in operation.inputs.values():
        yield from (each.name for each in bindings if isinstance(each, MilReference))
    for block in operation.blocks:
        yield from block.outputs
        for inner in block.operations:
            yield from _list_reads(inner)


def _make_reader(bindings: tuple[MilBinding, ...], is_tuple: bool) -> Callable[[Values], Any]:
    """Make a function that returns the value of an input."""
    parts = [_make_single_reader(binding) for binding in bindings]
    if len(parts) == 1 and not is_tuple:
        return parts[0]
    return lambda values: [read(values) for read in parts]


def _make_single_reader(binding: MilBinding) -> Callable[[Values], Any]:
    if isinstance(binding, MilReference):
        name = binding.name
        return lambda values: values[name]
    value = _unwrap(binding)
    return lambda values: value


def _require_reader(
    operation: MilOperation, key: str, *, is_tuple: bool = False
) -> Callable[[Values], Any]:
    if key not in operation.inputs:
        raise ProgramError(f"CoreML operation {operation} has no input {key}")
    return _make_reader(operation.inputs[key], is_tuple)


def _unwrap(constant: MilConstant) -> Any:
    value = constant.value
    return list(value) if isinstance(value, tuple) else value


def _to_runtime_values(values: Sequence[Any], outputs: Sequence[MilParameter]) -> list[Any]:
    """Return values as run-time values: constants of rank 0 become tensors."""
    if len(values) != len(outputs):
        raise ProgramError(f"a block returns {len(values)} values, expected {len(outputs)}")
    return [
        torch.tensor(value, dtype=output.type.dtype.storage)
        if isinstance(value, bool | int | float) and isinstance(output.type, MilTensorType)
        else value
        for value, output in zip(values, outputs, strict=True)
    ]


def _to_declared(result: torch.Tensor, output: MilParameter) -> torch.Tensor:
    """Round a result to the dtype that the operation declares."""
    if not isinstance(output.type, MilTensorType):
        raise ProgramError(f"{output.name!r} is no tensor")
    return result.to(output.type.dtype.storage)


def _to_tensor(value: Any, name: str) -> torch.Tensor:
    if isinstance(value, bool | int | float):
        return torch.tensor(value)  # a constant of rank 0; the delegate casts it
    if not isinstance(value, torch.Tensor):
        raise ProgramError(f"CoreML output {name!r} is no tensor")
    return value


def _check_results(operation: MilOperation, results: Sequence[Any]) -> None:
    """Check that results have the types that the operation declares.

    CoreML infers types when it compiles a model, and refuses a program that declares others.
    """
    if len(results) != len(operation.outputs):
        raise ProgramError(f"{len(results)} results, it declares {len(operation.outputs)}")
    for output, result in zip(operation.outputs, results, strict=True):
        declared = output.type
        if not isinstance(declared, MilTensorType):
            continue
        if not isinstance(result, torch.Tensor):
            raise ProgramError(f"its result {output.name!r} is no tensor")
        if result.dtype != declared.dtype.storage or not declared.matches(tuple(result.shape)):
            raise ProgramError(
                f"its result {output.name!r} is {result.dtype}{list(result.shape)}, it declares "
                f"{declared}"
            )


def _make_zeros(name: str, type_: MilTensorType) -> torch.Tensor:
    shape = [size for size in type_.shape if size is not None]
    if math.prod(shape) * max(type_.dtype.bits // 8, 1) > MAX_BYTES:
        raise ProgramError(f"CoreML state {name!r} has more than {MAX_BYTES} bytes")
    return torch.zeros(shape, dtype=type_.dtype.storage)
