"""Execute a serialized program, in the native runtime or in our interpreter.

:func:`run_native` passes the bytes to the ExecuTorch runtime. :class:`Interpreter` executes the
program's instruction list where the runtime of this host lacks the delegate. It uses the memory
plan, the constants and the kernel calls of the ``.pte``; it passes each delegate call to the
backend's loader and each kernel call to the given kernels (:mod:`harness.execution.kernels`). It
never uses the exported graph.
"""

from __future__ import annotations

import functools
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
from executorch.exir import schema

from harness.errors import MissingKernels, ProgramError
from harness.execution.kernels import KernelHandle, Kernels
from harness.execution.native.runtime_log import (
    capture_runtime_log,
    filter_first_load_messages,
    format_instruction,
)
from harness.execution.operators import find_missing_kernels, register_operators
from harness.execution.program import DelegatePayload, Program, TensorSpec
from harness.execution.validation import compute_arena_sizes, get_memory_offset
from harness.model.case import Inputs

DelegateHandle = Callable[[list[Any]], None]
"""Executes one delegate call: gets all arguments, inputs first, and writes into the outputs.

It restrides an output tensor in place to change its shape, and replaces an output that is a number
in the list."""

DelegateLoader = Callable[[DelegatePayload], DelegateHandle]
"""Loads a delegate once; the handle holds state that persists between calls."""

OutputValue = Any
"""An output of a program: ``Tensor | int | float | bool | str | None``, as the plan declares it.

The plan's outputs are those of the graph without mutated buffers (``BUFFER_MUTATION``), whose new
state stays in planned memory until the next call. A mutated input (``USER_INPUT_MUTATION``) is an
output, before the user's outputs: its value after the last instruction. The caller's tensor does
not change in the interpreter, and natively where the program plans memory for its inputs (the
default). Returned constants are outputs, and a value that is returned twice is two outputs."""

CallListener = Callable[[float, Callable[[], object]], None]
"""Gets the seconds of each call of a loaded program, and a function that repeats the call."""

_Values = TypeVar("_Values")

_CALL_LISTENER: ContextVar[CallListener | None] = ContextVar("call_listener", default=None)

# Far more instructions than any valid program of the suites executes: stops a corrupt jump.
_MAX_STEPS = 10_000_000


@contextmanager
def report_calls(listener: CallListener) -> Iterator[None]:
    """Report the calls that this thread executes within a block to a listener."""
    token = _CALL_LISTENER.set(listener)
    try:
        yield
    finally:
        _CALL_LISTENER.reset(token)


def _time_call(execute: Callable[[Any], _Values], inputs: Any) -> _Values:
    start = time.perf_counter()
    values = execute(inputs)
    if (listener := _CALL_LISTENER.get()) is not None:
        listener(time.perf_counter() - start, functools.partial(execute, inputs))
    return values


def list_native_backends() -> list[str]:
    """List the delegates that the runtime of this host has, by registered name."""
    from executorch.runtime import Runtime

    return list(Runtime.get().backend_registry.registered_backend_names)


def run_native(
    program: bytes, calls: Sequence[Inputs], method: str = "forward"
) -> list[list[OutputValue]]:
    """Load a program once in the ExecuTorch runtime and execute it for each call.

    Args:
        program: the bytes of the ``.pte``.
        calls: flat inputs of each call.
        method: which of its methods.

    Returns:
        The plan's outputs of each call, in the plan's order; see :data:`OutputValue`.

    Raises:
        MissingKernels: the program calls operators that the runtime has no kernels for.
        RuntimeError: the runtime fails; the message has its error code and its log.
    """
    try:
        return _run_native(program, calls, method)
    except RuntimeError as error:
        if log := capture_runtime_log(lambda: _run_native(program, calls, method)):
            raise RuntimeError(f"{error}; the runtime says: {log}") from None
        raise


def _run_native(program: bytes, calls: Sequence[Inputs], method: str) -> list[list[OutputValue]]:
    from executorch.runtime import Runtime, Verification

    # The variable keeps the bytes alive: a method reads them without a reference.
    loaded = Runtime.get().load_program(program, verification=Verification.InternalConsistency)
    if method not in loaded.method_names:
        raise ProgramError(
            f"program has no method {method!r}; it has {sorted(loaded.method_names)}"
        )
    try:
        with filter_first_load_messages():
            ready = loaded.load_method(method)
    except RuntimeError as error:
        if missing := find_missing_kernels(Program(program).plan):
            raise MissingKernels(missing) from error
        raise
    if ready is None:
        raise ProgramError(f"the runtime does not load method {method!r}")
    results = []
    for inputs in calls:
        values = _time_call(ready.execute, list(inputs))
        results.append([_copy_output(number, value) for number, value in enumerate(values)])
    return results


def _copy_output(number: int, value: Any) -> OutputValue:
    """Copy an output, because the next call overwrites its memory."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ProgramError(f"output {number} is {type(value).__name__}, which no program returns")


class Interpreter:
    """Executes the instruction list of one program; state persists between calls.

    Threads may share an interpreter. Its calls run one at a time, because they share planned
    memory.
    """

    def __init__(
        self,
        program: bytes | Program,
        loaders: Mapping[str, DelegateLoader],
        kernels: Kernels,
    ) -> None:
        """Parse the program, lay out its memory and load its delegates.

        Args:
            program: bytes of the ``.pte``, parsed or not.
            loaders: how to load each delegate, by its registered name.
            kernels: execute the fallback nodes. Use :class:`RuntimeKernels` for vendors' programs:
                it rejects a program whose kernels the vendor's runtime lacks.

        Raises:
            ProgramError: the bytes are no program, a delegate has no loader, or a kernel is
                missing.
        """
        register_operators()
        self._lock = threading.Lock()
        self.program = program if isinstance(program, Program) else Program(program)
        self.plan = self.program.plan
        self._instructions = self.plan.chains[0].instructions
        self._arenas = [bytearray(size) for size in compute_arena_sizes(self.plan)]
        self._values: list[Any] = [
            self._create_value(index, value.val) for index, value in enumerate(self.plan.values)
        ]
        self._kernels: dict[int, KernelHandle] = {
            at: kernels.load(self.program, instruction.instr_args)
            for at, instruction in enumerate(self._instructions)
            if isinstance(instruction.instr_args, schema.KernelCall)
        }
        self._delegates: list[DelegateHandle] = []
        for payload in self.program.delegates:
            if payload.id not in loaders:
                raise ProgramError(f"nothing here can execute delegate {payload.id!r}")
            self._delegates.append(loaders[payload.id](payload))

    def __call__(self, inputs: Inputs) -> list[OutputValue]:
        """Execute once.

        Args:
            inputs: flat inputs; tensors or Python scalars.

        Returns:
            The plan's outputs, in the plan's order; tensors are copies.

        Raises:
            ProgramError: the inputs do not fit the program, or an instruction is malformed.
        """
        with self._lock:
            return _time_call(self._execute, inputs)

    def _execute(self, inputs: Inputs) -> list[OutputValue]:
        self._bind(inputs)
        instructions = self._instructions
        at = steps = 0
        while at < len(instructions):
            steps += 1
            if steps > _MAX_STEPS:
                raise ProgramError("program does not end")
            match instructions[at].instr_args:
                case schema.KernelCall(args=args):
                    self._call_at(at, self._kernels[at], args)
                case schema.DelegateCall(delegate_index=delegate, args=args):
                    self._call_at(at, self._delegates[delegate], args)
                case schema.MoveCall(move_from=source, move_to=to):
                    self._values[to] = self._values[source]
                case schema.JumpFalseCall(cond_value_index=index, destination_instruction=to):
                    if not _is_true(self._read(index)):
                        at = to
                        continue
                case schema.FreeCall():
                    pass
            at += 1
        return [
            _copy_output(number, self._read(index))
            for number, index in enumerate(self.plan.outputs)
        ]

    def _create_value(self, index: int, value: Any) -> Any:
        """Create the runtime value of a declared value; :meth:`_read` resolves lists on use."""
        match value:
            case schema.Tensor():
                return self._create_tensor(index, value)
            case schema.Int(int_val=number):
                return number
            case schema.Bool(bool_val=flag):
                return flag
            case schema.Double(double_val=number):
                return float(number)
            case schema.String(string_val=text):
                return text
            case schema.Null():
                return None
            case schema.BoolList(items=items) | schema.DoubleList(items=items):
                return list(items)
            case _:
                return value

    def _create_tensor(self, index: int, value: schema.Tensor) -> torch.Tensor:
        spec = self.program.get_tensor_spec(index)
        data = self.program.get_initial_bytes(value)
        if value.allocation_info is None:
            if data is None:
                return torch.empty_strided(spec.sizes, spec.strides, dtype=spec.dtype)
            return _make_constant(data, spec)
        tensor = self._view(value.allocation_info, spec)
        if data is not None:
            tensor.copy_(_make_constant(data, spec))
        return tensor

    def _view(self, where: schema.AllocationDetails, spec: TensorSpec) -> torch.Tensor:
        """Return a tensor in planned memory with a storage that begins at the tensor.

        Kernels such as ``as_strided_copy`` count an offset from the beginning of the storage.
        """
        count = math.prod(spec.sizes)
        if count == 0:
            return torch.empty_strided(spec.sizes, spec.strides, dtype=spec.dtype)
        arena = self._arenas[where.memory_id]
        flat = torch.frombuffer(
            arena, dtype=spec.dtype, count=count, offset=get_memory_offset(where)
        )
        return flat.as_strided(spec.sizes, spec.strides)

    def _bind(self, inputs: Inputs) -> None:
        if len(inputs) != len(self.plan.inputs):
            raise ProgramError(
                f"program takes {len(self.plan.inputs)} inputs, {len(inputs)} were given"
            )
        for number, (index, given) in enumerate(zip(self.plan.inputs, inputs, strict=True)):
            if not isinstance(given, torch.Tensor):
                self._values[index] = given
                continue
            spec = self.program.get_tensor_spec(index)
            if given.dtype != spec.dtype:
                raise ProgramError(f"input {number} is {given.dtype}, not {spec.dtype}")
            # The runtime also compares the number of elements (TensorImpl::
            # internal_resize_contiguous in runtime/core/portable_type/tensor_impl.cpp).
            planned_elements = math.prod(spec.sizes)
            fits = len(given.shape) == len(spec.sizes) and (
                given.numel() <= planned_elements if spec.is_dynamic else given.shape == spec.sizes
            )
            if not fits:
                most = (
                    f"at most {planned_elements} elements, planned for " if spec.is_dynamic else ""
                )
                raise ProgramError(
                    f"input {number} has shape {tuple(given.shape)}; the program takes "
                    f"{most}{spec.sizes}"
                )
            planned = self._values[index]
            if spec.is_dynamic:
                planned.as_strided_(given.shape, spec.compute_strides(given.shape))
            planned.copy_(given)

    def _read(self, index: int) -> Any:
        """Return a value with its lists resolved: list items are indices of other values."""
        value = self._values[index]
        match value:
            case schema.IntList(items=items) | schema.TensorList(items=items):
                return [self._read(item) for item in items]
            case schema.OptionalTensorList(items=items):
                return [None if item < 0 else self._read(item) for item in items]
            case _:
                return value

    def _call_at(self, at: int, handle: DelegateHandle | KernelHandle, indices: list[int]) -> None:
        try:
            self._call(handle, indices)
        except Exception as error:
            error.add_note(format_instruction(at))
            raise

    def _call(self, handle: DelegateHandle | KernelHandle, indices: list[int]) -> None:
        values = [self._read(index) for index in indices]
        handle(values)
        for index, value in zip(indices, values, strict=True):
            if isinstance(value, list):
                continue
            self._values[index] = value
            if not isinstance(value, torch.Tensor):
                continue
            spec = self.program.get_tensor_spec(index)
            if not spec.is_dynamic and tuple(value.shape) != spec.sizes:
                raise ProgramError(
                    f"a call returned shape {tuple(value.shape)} for a tensor that the "
                    f"program fixes to {spec.sizes}"
                )


def _is_true(condition: Any) -> bool:
    """Return whether a condition holds, as the runtime's ``parse_cond_value`` decides.

    Raises:
        ProgramError: the value is neither a bool nor a tensor of bools.
    """
    if isinstance(condition, torch.Tensor) and condition.dtype == torch.bool:
        return bool(condition.all())
    if isinstance(condition, bool):
        return condition
    raise ProgramError(f"a jump goes by a {type(condition).__name__} that is no flag")


def _make_constant(data: bytes | memoryview, spec: TensorSpec) -> torch.Tensor:
    count = math.prod(spec.sizes)
    size = count * spec.dtype.itemsize
    if len(data) < size:
        raise ProgramError(f"constant of {size} bytes has only {len(data)}")
    if count == 0:
        return torch.empty(spec.sizes, dtype=spec.dtype)
    flat = torch.frombuffer(bytearray(data[:size]), dtype=spec.dtype)
    return flat.as_strided(spec.sizes, spec.strides)
