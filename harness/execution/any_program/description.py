"""What is in a program, as plain data: read off its bytes, nothing is executed."""

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
    """An input or output.

    Attributes:
        name: what the exported program called it; empty where the program does not tell.
        type: ``tensor``, or the Python type of a number that the program fixes.
        dtype: of a tensor, such as ``float32``.
        shape: sizes of a tensor; the largest ones where it is dynamic.
        dim_order: of a tensor: its dimensions from the outermost to the innermost in memory.
        dynamic: a tensor's shape may change from call to call.
        value: of a number.
    """

    name: str
    type: str
    dtype: str = ""
    shape: list[int] = []
    dim_order: list[int] = []
    dynamic: bool = False
    value: int | float | bool | str | None = None


class DelegateFacts(msgspec.Struct, kw_only=True):
    """A delegate.

    Attributes:
        id: the name by which the runtime is asked for it.
        bytes: size of its payload.
        calls: how many instructions call it.
        compile_specs: bytes of each compile spec.
        runtime: who executes it here: ``native``, ``reference``, ``emulated`` or ``none``.
        reason: why nobody does.
        listing: what its backend reads in the payload.
    """

    id: str
    bytes: int
    calls: int
    compile_specs: dict[str, int]
    runtime: str
    reason: str
    listing: list[str]


class KernelFacts(msgspec.Struct, kw_only=True):
    """A kernel that the program calls outside of its delegates; ``here``: this runtime has it."""

    name: str
    calls: int
    here: bool


class MemoryFacts(msgspec.Struct, kw_only=True):
    """A memory that a method plans, and where it is to be."""

    bytes: int
    device: str = "cpu"


class MethodFacts(msgspec.Struct, kw_only=True):
    """A method.

    Attributes:
        name: its name.
        inputs: in order.
        outputs: in order.
        instructions: how many it has.
        delegates: in the order that instructions refer to.
        kernels: by name.
        memory: what it plans for values that are no constants.
        problem: why it is not executed on this host whatever its delegates; empty if nothing is
            known against it.
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
    """Data of a program.

    Attributes:
        count: how many constants, or initial states.
        bytes: what they take, padding included.
    """

    count: int
    bytes: int


class ProgramFacts(msgspec.Struct, kw_only=True):
    """A program.

    Attributes:
        bytes: of the file.
        methods: in the order of the file.
        constants: tensors that no method changes.
        initial_state: what mutable buffers start with.
        named_data: bytes by key; delegates keep their weights so.
        external: names of constants that are not in the file but in a ``.ptd`` beside it.
    """

    bytes: int
    methods: list[MethodFacts]
    constants: DataFacts
    initial_state: DataFacts
    named_data: dict[str, int]
    external: list[str]


def describe_program(data: bytes, *, listings: bool = True) -> ProgramFacts:
    """What is in a program.

    Args:
        data: the bytes of a ``.pte``, whoever emitted it.
        listings: have payloads read by the backends that can.

    Raises:
        ProgramError: they are no program, or it contradicts itself.
    """
    file = container.read(data)
    named = file.named_data.pte_data if file.named_data else {}
    buffers = file.named_data.buffers if file.named_data else []
    return ProgramFacts(
        bytes=len(data),
        methods=[_method(file, plan, listings) for plan in file.program.execution_plan],
        constants=_data(file.program.constant_buffer),
        initial_state=_data(file.mutable_data),
        named_data={key: len(buffers[entry.buffer_index]) for key, entry in named.items()},
        external=container.list_external_constants(file),
    )


def _method(file: PTEFile, plan: schema.ExecutionPlan, listings: bool) -> MethodFacts:
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
        inputs=_values(plan, plan.inputs, bind_inputs.list_input_names(plan)),
        outputs=_values(plan, plan.outputs, bind_inputs.list_output_names(plan)),
        instructions=len(instructions),
        delegates=[
            _delegate(payload, calls[number], listings) for number, payload in enumerate(payloads)
        ],
        kernels=[
            KernelFacts(name=name, calls=count, here=name in list_native_kernels())
            for name, count in sorted(kernels.items())
        ],
        memory=_memory(plan),
        problem=problem,
    )


def _values(
    plan: schema.ExecutionPlan, indices: Sequence[int], names: Sequence[str]
) -> list[ValueFacts]:
    return [
        _value(plan.values[index].val, name) for index, name in zip(indices, names, strict=True)
    ]


def _value(value: Any, name: str) -> ValueFacts:
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


def _delegate(payload: DelegatePayload, calls: int, listings: bool) -> DelegateFacts:
    who = find_delegate_runtime(payload.id)
    return DelegateFacts(
        id=payload.id,
        bytes=len(payload.data),
        calls=calls,
        compile_specs={key: len(value) for key, value in payload.compile_specs.items()},
        runtime=who.runtime,
        reason=who.reason,
        listing=list(describe_payload(payload)) if listings else [],
    )


def _memory(plan: schema.ExecutionPlan) -> list[MemoryFacts]:
    # The first is that of constants, which the runtime counts itself.
    found = [MemoryFacts(bytes=size) for size in plan.non_const_buffer_sizes[1:]]
    for entry in plan.non_const_buffer_device or ():
        if 0 < entry.buffer_idx <= len(found):
            device = schema.DeviceType(entry.device_type).name.lower()
            found[entry.buffer_idx - 1].device = f"{device}:{entry.device_index}"
    return found


def _data(buffers: Sequence[schema.Buffer] | None) -> DataFacts:
    """Sizes of buffers, of which the first stands for "none"."""
    sizes = [len(buffer.storage) for buffer in (buffers or ())[1:]]
    return DataFacts(count=len(sizes), bytes=sum(sizes))
