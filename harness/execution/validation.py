"""Validate a parsed plan before it is laid out or executed.

The reader checks the structure of the file, not the numbers in it. Native code ends the process
when it gets a negative size, an index beyond a list or a dtype without strides. Validation rejects
plans that the ExecuTorch runtime rejects when it loads a method (runtime/executor/method.cpp,
tensor_parser_portable.cpp), and plans that our interpreter cannot execute.
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
    """Return the torch dtype of a schema scalar type.

    Raises:
        ProgramError: torch has no such dtype, or tensors of it have no strides.
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
    """Reject an invalid plan.

    Raises:
        ProgramError: names the invalid value, instruction or delegate.
        UnsupportedProgram: the tensors take more than half of the memory of this host.
    """
    _check_fields(plan)
    if len(plan.chains) != 1:
        raise ProgramError(f"the plan has {len(plan.chains)} chains, expected one")
    if any(size < 0 for size in plan.non_const_buffer_sizes):
        raise ProgramError(f"a planned memory has a negative size: {plan.non_const_buffer_sizes}")
    total = _check_values(plan)
    _check_chain(plan)
    if total > get_host_memory_bytes() // 2:
        raise UnsupportedProgram(f"the program's tensors take {total} bytes of this host's memory")


def _check_fields(plan: schema.ExecutionPlan) -> None:
    """Check that the plan and its parts have all required fields."""
    _check_complete("the plan", plan)
    for number, delegate in enumerate(plan.delegates):
        _check_complete(f"delegate {number}", delegate)
    for number, operator in enumerate(plan.operators):
        _check_complete(f"operator {number}", operator)
    for number, value in enumerate(plan.values):
        _check_complete(f"value {number}", value.val)


def _check_values(plan: schema.ExecutionPlan) -> int:
    """Check tensors, lists, inputs and outputs.

    Returns:
        The size of all tensors in bytes.
    """
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
    return total


def _check_chain(plan: schema.ExecutionPlan) -> None:
    """Check the indices in the instructions."""
    _check_complete("the chain", plan.chains[0])
    for at, instruction in enumerate(plan.chains[0].instructions):
        _check_complete(f"instruction {at}", instruction.instr_args)
        for what, index, count in _references(instruction.instr_args, plan):
            _check_index(f"instruction {at}: {what}", index, count)


@functools.cache
def get_host_memory_bytes() -> int:
    """Return the memory that this process may use: the machine's, or its address space limit."""
    import resource

    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return most if limit == resource.RLIM_INFINITY else min(most, limit)


def compute_arena_sizes(plan: schema.ExecutionPlan) -> list[int]:
    """Return the size of each planned memory (arena) that the plan's tensors need.

    Declared sizes may be larger; the interpreter allocates these.
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
    """Return a tensor's offset in its planned memory, in bytes."""
    return int(where.memory_offset_low + (where.memory_offset_high << 32))


def compute_nbytes(tensor: schema.Tensor) -> int:
    """Return the bytes of a tensor of the declared sizes."""
    return int(math.prod(tensor.sizes) * torch_dtype(tensor.scalar_type).itemsize)


_REQUIRED: dict[type, tuple[str, ...]] = {}


def _get_required_fields(kind: type) -> tuple[str, ...]:
    """List the fields of a schema table that must not be None."""
    if kind not in _REQUIRED:
        hints = typing.get_type_hints(kind).items()
        _REQUIRED[kind] = tuple(
            name for name, hint in hints if type(None) not in typing.get_args(hint)
        )
    return _REQUIRED[kind]


def _check_complete(what: str, table: Any) -> None:
    """Check that required fields exist: the reader returns None for a missing table or vector.

    Raises:
        ProgramError: a field that the schema requires is missing.
    """
    if table is None:
        raise ProgramError(f"{what} is missing")
    for name in _get_required_fields(type(table)):
        if getattr(table, name) is None:
            raise ProgramError(f"{what}, {type(table).__name__}, lacks its {name}")


def _check_tensor(number: int, tensor: schema.Tensor, memories: Sequence[int]) -> int:
    """Check one tensor.

    Returns:
        Its size in bytes.
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
    # Strides are products of sizes: the other sizes may overflow although one is 0.
    count = math.prod(max(size, 1) for size in tensor.sizes) * dtype.itemsize
    if count > _INT64_MAX:
        raise ProgramError(f"{what} has {tensor.sizes} elements, more than can be counted")
    size = compute_nbytes(tensor)
    where = tensor.allocation_info
    if where is None:
        return size
    # Memory 0 holds constants (schema/program.fbs).
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
    """Yield kind, index and number of existing items for each reference of an instruction."""
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
            # The end of the chain is a valid destination.
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
