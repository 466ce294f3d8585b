"""Describe the contents of a program as plain data, without executing it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from executorch.exir import schema

from harness.errors import UnsupportedProgram
from harness.execution import container
from harness.execution.any_program import bind_inputs
from harness.execution.any_program.delegate_runtimes import describe_payload, find_delegate_runtime
from harness.execution.operators import kernel_name, list_native_kernels
from harness.execution.program import DelegatePayload, Program, TensorSpec
from harness.vendors.executorch import PTEFile


class ValueFacts(msgspec.Struct, kw_only=True):
    """An input or output of a method.

    Attributes:
        name: display name from the exported program; empty if the program has none.
        type: ``tensor``, or the Python type of a number that the program fixes.
        dtype: dtype of a tensor, such as ``float32``.
        shape: sizes of a tensor; the largest ones for a dynamic shape.
        dim_order: dimensions of a tensor from the outermost to the innermost in memory.
        dynamic: whether a tensor's shape is dynamic.
        value: value of a number.
    """

    name: str
    type: str
    dtype: str = ""
    shape: list[int] = []
    dim_order: list[int] = []
    dynamic: bool = False
    value: int | float | bool | str | None = None


class DelegateFacts(msgspec.Struct, kw_only=True):
    """A delegate of a method.

    Attributes:
        id: registered name of its backend.
        bytes: size of its payload.
        calls: number of instructions that call it.
        compile_specs: size of each compile spec, in bytes.
        runtime: the runtime that executes it on this host: ``native``, ``reference``,
            ``emulated`` or ``none``.
        reason: why the runtime is ``none``.
        listing: the payload as text lines, from its backend.
    """

    id: str
    bytes: int
    calls: int
    compile_specs: dict[str, int]
    runtime: str
    reason: str
    listing: list[str]


class KernelFacts(msgspec.Struct, kw_only=True):
    """A kernel for fallback nodes; ``here`` is whether this host's runtime has it."""

    name: str
    calls: int
    here: bool


class MemoryFacts(msgspec.Struct, kw_only=True):
    """A planned memory (arena) of a method, and its device."""

    bytes: int
    device: str = "cpu"


class MethodFacts(msgspec.Struct, kw_only=True):
    """A method of a program.

    Attributes:
        name: its name.
        inputs: its inputs, in order.
        outputs: its outputs, in order.
        instructions: number of instructions.
        delegates: its delegates, in the order of the indices in instructions.
        kernels: its kernels, by name.
        memory: planned memory for values that are no constants.
        problem: why this host cannot execute it, apart from its delegates; empty if it can.
    """

    name: str
    inputs: list[ValueFacts]
    outputs: list[ValueFacts]
    instructions: int
    delegates: list[DelegateFacts]
    kernels: list[KernelFacts]
    memory: list[MemoryFacts]
    problem: str = ""


class DataFacts(msgspec.Struct, kw_only=True):
    """Constants or initial states of a program.

    Attributes:
        count: their number.
        bytes: their size, with padding.
    """

    count: int
    bytes: int


class ProgramFacts(msgspec.Struct, kw_only=True):
    """A program.

    Attributes:
        bytes: size of the file.
        methods: its methods, in the order of the file.
        constants: tensors that no method changes.
        initial_state: initial values of mutable buffers.
        named_data: size in bytes by key; delegates store weights there.
        external: names of constants that are in a separate ``.ptd`` file.
    """

    bytes: int
    methods: list[MethodFacts]
    constants: DataFacts
    initial_state: DataFacts
    named_data: dict[str, int]
    external: list[str]


def describe_program(data: bytes, *, listings: bool = True) -> ProgramFacts:
    """Describe a program.

    Args:
        data: the bytes of a ``.pte`` from any source.
        listings: list payloads with the backends that can read them.

    Raises:
        ProgramError: the bytes are no program, or the program is invalid.
    """
    file = container.read(data)
    named = file.named_data.pte_data if file.named_data else {}
    buffers = file.named_data.buffers if file.named_data else []
    return ProgramFacts(
        bytes=len(data),
        methods=[_describe_method(file, plan, listings) for plan in file.program.execution_plan],
        constants=_describe_data(file.program.constant_buffer),
        initial_state=_describe_data(file.mutable_data),
        named_data={key: len(buffers[entry.buffer_index]) for key, entry in named.items()},
        external=container.list_external_constants(file),
    )


def _describe_method(file: PTEFile, plan: schema.ExecutionPlan, listings: bool) -> MethodFacts:
    problem, payloads = "", []
    try:
        payloads = Program(file, plan.name).delegates
    except UnsupportedProgram as error:
        problem = str(error)
    instructions = plan.chains[0].instructions
    kernels: Counter[str] = Counter()
    calls: Counter[int] = Counter()
    for instruction in instructions:
        match instruction.instr_args:
            case schema.KernelCall(op_index=number):
                kernels[kernel_name(plan.operators[number])] += 1
            case schema.DelegateCall(delegate_index=number):
                calls[number] += 1
    return MethodFacts(
        name=plan.name,
        inputs=_describe_values(plan, plan.inputs, bind_inputs.list_input_names(plan)),
        outputs=_describe_values(plan, plan.outputs, bind_inputs.list_output_names(plan)),
        instructions=len(instructions),
        delegates=[
            _describe_delegate(payload, calls[number], listings)
            for number, payload in enumerate(payloads)
        ],
        kernels=[
            KernelFacts(name=name, calls=count, here=name in list_native_kernels())
            for name, count in sorted(kernels.items())
        ],
        memory=_describe_memory(plan),
        problem=problem,
    )


def _describe_values(
    plan: schema.ExecutionPlan, indices: Sequence[int], names: Sequence[str]
) -> list[ValueFacts]:
    return [
        _describe_value(plan.values[index].val, name)
        for index, name in zip(indices, names, strict=True)
    ]


def _describe_value(value: Any, name: str) -> ValueFacts:
    if not isinstance(value, schema.Tensor):
        fixed = bind_inputs.get_fixed_value(value)
        return ValueFacts(name=name, type=type(fixed).__name__, value=fixed)
    spec = TensorSpec.from_value(value)
    return ValueFacts(
        name=name,
        type="tensor",
        dtype=str(spec.dtype).removeprefix("torch."),
        shape=list(spec.sizes),
        dim_order=list(spec.dim_order),
        dynamic=spec.is_dynamic,
    )


def _describe_delegate(payload: DelegatePayload, calls: int, listings: bool) -> DelegateFacts:
    found = find_delegate_runtime(payload.id)
    return DelegateFacts(
        id=payload.id,
        bytes=len(payload.data),
        calls=calls,
        compile_specs={key: len(value) for key, value in payload.compile_specs.items()},
        runtime=found.runtime,
        reason=found.reason,
        listing=list(describe_payload(payload)) if listings else [],
    )


def _describe_memory(plan: schema.ExecutionPlan) -> list[MemoryFacts]:
    # The first memory is for constants; the runtime manages it.
    found = [MemoryFacts(bytes=size) for size in plan.non_const_buffer_sizes[1:]]
    for entry in plan.non_const_buffer_device or ():
        if 0 < entry.buffer_idx <= len(found):
            device = schema.DeviceType(entry.device_type).name.lower()
            found[entry.buffer_idx - 1].device = f"{device}:{entry.device_index}"
    return found


def _describe_data(buffers: Sequence[schema.Buffer] | None) -> DataFacts:
    """Count buffers and their bytes; the first buffer means "none"."""
    sizes = [len(buffer.storage) for buffer in (buffers or ())[1:]]
    return DataFacts(count=len(sizes), bytes=sum(sizes))
