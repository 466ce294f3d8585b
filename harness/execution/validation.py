"""What a parsed plan has to keep to, before anything is laid out or executed by it.

The reader checks the file's structure, not what its numbers refer to; native code that is handed
a negative size, an index beyond a list or a dtype without strides ends the process. What the
ExecuTorch runtime refuses when it loads a method is refused here as well (runtime/executor/
method.cpp, tensor_parser_portable.cpp), and so is what only our interpreter cannot do.
"""

from __future__ import annotations

import functools
import math
import os
import typing
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from executorch.exir import schema
from executorch.exir.scalar_type import ScalarType
from executorch.exir.tensor import get_scalar_type

from harness.errors import ProgramError, UnsupportedProgram

_INT64_MAX = 2**63 - 1

# Quantized types and bits have no strides in torch: as_strided of one ends the process.
_WITHOUT_STRIDES = frozenset(
    {
        ScalarType.QINT8,
        ScalarType.QUINT8,
        ScalarType.QINT32,
        ScalarType.QUINT4x2,
        ScalarType.QUINT2x4,
        ScalarType.BITS16,
    }
)

INDEX_LISTS = (schema.IntList, schema.TensorList, schema.OptionalTensorList)
"""Lists whose items are indices of other values of the plan."""


def torch_dtype(scalar_type: Any) -> torch.dtype:
    """The torch dtype of a schema scalar type.

    Raises:
        ProgramError: torch has no such dtype, or none that can be strided.
    """
    try:
        known = ScalarType(scalar_type)
        dtype: torch.dtype = get_scalar_type(known)
    except (KeyError, ValueError) as error:
        raise ProgramError(f"unknown scalar type {scalar_type}") from error
    if known in _WITHOUT_STRIDES:
        raise ProgramError(f"a tensor of {dtype} cannot be laid out")
    return dtype


def validate_plan(plan: schema.ExecutionPlan) -> None:
    """Refuse a plan that contradicts itself.

    Raises:
        ProgramError: naming the value, instruction or delegate that is wrong.
        UnsupportedProgram: its tensors would take more than half of the memory of this host.
    """
    _check_complete("the plan", plan)
    for number, delegate in enumerate(plan.delegates):
        _check_complete(f"delegate {number}", delegate)
    for number, operator in enumerate(plan.operators):
        _check_complete(f"operator {number}", operator)
    for number, value in enumerate(plan.values):
        _check_complete(f"value {number}", value.val)
    if len(plan.chains) != 1:
        raise ProgramError(f"the plan has {len(plan.chains)} chains, expected one")
    if any(size < 0 for size in plan.non_const_buffer_sizes):
        raise ProgramError(f"a planned memory has a negative size: {plan.non_const_buffer_sizes}")
    total = 0
    for number, value in enumerate(plan.values):
        match value.val:
            case schema.Tensor():
                total += _check_tensor(number, value.val, plan.non_const_buffer_sizes)
            case schema.IntList() | schema.TensorList() | schema.OptionalTensorList():
                _check_items(number, value.val, plan.values)
    for what, indices in (("input", plan.inputs), ("output", plan.outputs)):
        for index in indices:
            _check_index(f"an {what}", index, len(plan.values))
            if isinstance(plan.values[index].val, INDEX_LISTS):
                raise ProgramError(f"value {index}, an {what} of the program, is a list")
    _check_complete("the chain", plan.chains[0])
    for at, instruction in enumerate(plan.chains[0].instructions):
        _check_complete(f"instruction {at}", instruction.instr_args)
        for what, index, count in _references(instruction.instr_args, plan):
            _check_index(f"instruction {at}: {what}", index, count)
    if total > get_host_memory_bytes() // 2:
        raise UnsupportedProgram(f"the program's tensors take {total} bytes of this host's memory")


@functools.cache
def get_host_memory_bytes() -> int:
    """Memory that this process may have: the machine's, or less where its address space ends."""
    import resource

    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return most if limit == resource.RLIM_INFINITY else min(most, limit)


def compute_arena_sizes(plan: schema.ExecutionPlan) -> list[int]:
    """How much of each planned memory the plan's tensors reach; nobody touches what is beyond.

    The declared sizes may be anything above: memory is laid out by these instead.
    """
    ends = [0] * len(plan.non_const_buffer_sizes)
    for value in plan.values:
        tensor = value.val
        if isinstance(tensor, schema.Tensor) and tensor.allocation_info is not None:
            memory = tensor.allocation_info.memory_id
            ends[memory] = max(
                ends[memory], get_memory_offset(tensor.allocation_info) + compute_nbytes(tensor)
            )
    return ends


def get_memory_offset(where: schema.AllocationDetails) -> int:
    """Bytes from the start of a planned memory."""
    return int(where.memory_offset_low + (where.memory_offset_high << 32))


def compute_nbytes(tensor: schema.Tensor) -> int:
    """Bytes of a tensor of the declared sizes."""
    return int(math.prod(tensor.sizes) * torch_dtype(tensor.scalar_type).itemsize)


_REQUIRED: dict[type, tuple[str, ...]] = {}


def _get_required_fields(kind: type) -> tuple[str, ...]:
    """Names of the fields of a table of the schema that may not be None."""
    if kind not in _REQUIRED:
        hints = typing.get_type_hints(kind).items()
        _REQUIRED[kind] = tuple(
            name for name, hint in hints if type(None) not in typing.get_args(hint)
        )
    return _REQUIRED[kind]


def _check_complete(what: str, table: Any) -> None:
    """The reader has None for a table or a vector that the file leaves out.

    Raises:
        ProgramError: one is missing that the schema requires.
    """
    if table is None:
        raise ProgramError(f"{what} is missing")
    for name in _get_required_fields(type(table)):
        if getattr(table, name) is None:
            raise ProgramError(f"{what}, {type(table).__name__}, lacks its {name}")


def _check_tensor(number: int, tensor: schema.Tensor, memories: Sequence[int]) -> int:
    """Check one tensor.

    Returns:
        The bytes it takes.
    """
    what = f"value {number}"
    if any(size < 0 for size in tensor.sizes):
        raise ProgramError(f"{what} has a negative size: {tensor.sizes}")
    if sorted(tensor.dim_order) != list(range(len(tensor.sizes))):
        raise ProgramError(
            f"{what} has the dim order {tensor.dim_order} for {len(tensor.sizes)} dimensions"
        )
    if tensor.layout != 0 or tensor.storage_offset != 0:
        raise ProgramError(f"{what} is not a strided tensor that begins at its storage")
    dtype = torch_dtype(tensor.scalar_type)
    # Strides are products of sizes, so a size of 0 does not make the others harmless.
    count = math.prod(max(size, 1) for size in tensor.sizes) * dtype.itemsize
    if count > _INT64_MAX:
        raise ProgramError(f"{what} has {tensor.sizes} elements, more than can be counted")
    size = compute_nbytes(tensor)
    where = tensor.allocation_info
    if where is None:
        return size
    # Memory 0 is where constants live (schema/program.fbs).
    if not 0 < where.memory_id < len(memories):
        raise ProgramError(f"{what} is planned in memory {where.memory_id} of {len(memories)}")
    begin = get_memory_offset(where)
    if begin % dtype.itemsize:
        raise ProgramError(f"{what}, a tensor of {dtype}, is planned at unaligned offset {begin}")
    if begin + size > memories[where.memory_id]:
        raise ProgramError(
            f"{what} is planned beyond memory {where.memory_id}: to byte {begin + size} of "
            f"{memories[where.memory_id]}"
        )
    return size


def _check_items(number: int, value: Any, values: Sequence[schema.EValue]) -> None:
    item_type = schema.Int if isinstance(value, schema.IntList) else schema.Tensor
    optional = isinstance(value, schema.OptionalTensorList)
    for item in value.items:
        if optional and item == -1:
            continue
        _check_index(f"value {number}: an item", item, len(values))
        given = values[item].val
        if not isinstance(given, item_type) and not (optional and isinstance(given, schema.Null)):
            raise ProgramError(
                f"value {number}, {type(value).__name__}, has a {type(given).__name__} as an item"
            )


def _references(
    arguments: schema.InstructionArguments, plan: schema.ExecutionPlan
) -> Iterator[tuple[str, int, int]]:
    """What an instruction refers to: what it is, its index, and how many there are."""
    values = len(plan.values)
    match arguments:
        case schema.KernelCall(op_index=operator, args=args):
            yield "operator", operator, len(plan.operators)
        case schema.DelegateCall(delegate_index=delegate, args=args):
            yield "delegate", delegate, len(plan.delegates)
        case schema.MoveCall(move_from=source, move_to=to):
            args = [source, to]
        case schema.JumpFalseCall(cond_value_index=condition, destination_instruction=to):
            args = [condition]
            # The end of the chain is a place to jump to.
            yield "destination", to, len(plan.chains[0].instructions) + 1
        case schema.FreeCall(value_index=index):
            args = [index]
        case other:
            raise ProgramError(f"an instruction is unknown: {other}")
    for index in args:
        yield "value", index, values


def _check_index(what: str, index: int, count: int) -> None:
    if not 0 <= index < count:
        raise ProgramError(f"{what} has index {index} of {count}")
