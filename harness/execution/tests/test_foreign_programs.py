"""Programs that nobody lowered: what the reader and the interpreter make of changed bytes."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from executorch.exir import schema
from executorch.exir._serialize._program import (
    PTEFile,
    deserialize_pte_binary,
    serialize_pte_binary,
)
from executorch.exir.scalar_type import ScalarType

from harness.errors import ProgramError, UnsupportedProgram
from harness.execution.execute import Interpreter
from harness.execution.kernels import AtenKernels
from harness.execution.program import Program
from harness.execution.tests.interpreting import Task
from harness.execution.tests.test_kernels import PROGRAMS, program_of
from harness.execution.validation import get_host_memory_bytes, validate_plan
from harness.workers.child_process import ChildProcess

X = torch.tensor([0.5, -2.0, 7.25, 1e-3])
EDGES = (-(2**31), -1, 0, 1, 2, 3, 5, 7, 13, 16, 1000, 2**16, 2**31 - 1)
WORDS = (b"\xff\xff\xff\xff", b"\0\0\0\x80", b"\xff\xff\xff\x7f", b"\x0e\0\0\0", bytes(4))


def add() -> bytes:
    return program_of(lambda _, x: x + 1, X)


def rewritten(program: bytes, change: Callable[[schema.ExecutionPlan], None]) -> bytes:
    file = deserialize_pte_binary(program)
    change(file.program.execution_plan[0])
    return bytes(serialize_pte_binary(file))


def tensor(plan: schema.ExecutionPlan, index: int | None = None) -> schema.Tensor:
    value = plan.values[plan.inputs[0] if index is None else index].val
    assert isinstance(value, schema.Tensor)
    return value


def args(plan: schema.ExecutionPlan) -> list[int]:
    call = plan.chains[0].instructions[0].instr_args
    assert isinstance(call, schema.KernelCall)
    return call.args


def planned(plan: schema.ExecutionPlan) -> schema.AllocationDetails:
    where = tensor(plan).allocation_info
    assert where is not None
    return where


def enormous(plan: schema.ExecutionPlan) -> None:
    side = 2 ** ((get_host_memory_bytes().bit_length() + 1) // 2)
    tensor(plan).sizes = [side, side]
    tensor(plan).dim_order = [0, 1]
    plan.non_const_buffer_sizes[1] = 64 * get_host_memory_bytes()


def unknown_operator(plan: schema.ExecutionPlan) -> None:
    plan.operators[0].name = "aten::no_such_kernel"


CHANGES: dict[str, tuple[Callable[[schema.ExecutionPlan], Any], str]] = {
    "negative size": (lambda p: tensor(p).sizes.__setitem__(0, -4), "negative size"),
    "overflow": (
        lambda p: tensor(p).__dict__.update(sizes=[2**31 - 1] * 4, dim_order=[0, 1, 2, 3]),
        "more than can be counted",
    ),
    "dim order": (lambda p: tensor(p).dim_order.__setitem__(0, 1), r"dim order \[1\] for 1"),
    "rank": (lambda p: tensor(p).dim_order.append(1), r"dim order \[0, 1\] for 1"),
    "offset": (lambda p: tensor(p).__dict__.update(storage_offset=4), "begins at its storage"),
    "layout": (lambda p: tensor(p).__dict__.update(layout=1), "not a strided tensor"),
    "unaligned": (lambda p: planned(p).__dict__.update(memory_offset_low=2), "unaligned offset 2"),
    "beyond": (lambda p: planned(p).__dict__.update(memory_offset_low=4096), "beyond memory 1"),
    "far beyond": (lambda p: planned(p).__dict__.update(memory_offset_high=1), "beyond memory 1"),
    "no memory": (lambda p: planned(p).__dict__.update(memory_id=7), "in memory 7 of 2"),
    "enormous": (enormous, "of this host's memory"),
    "input": (lambda p: p.inputs.__setitem__(0, 99), "an input has index 99 of"),
    "output": (lambda p: p.outputs.__setitem__(0, -1), "an output has index -1 of"),
    "argument": (lambda p: args(p).__setitem__(0, 99), "instruction 0: value has index 99 of"),
    "operator": (lambda p: p.operators.clear(), "instruction 0: operator has index 0 of 0"),
    "unknown operator": (unknown_operator, "no_such_kernel"),
    "chains": (lambda p: p.chains.append(p.chains[0]), "2 chains, expected one"),
    "delegate": (
        lambda p: p.chains[0].instructions.insert(
            0, schema.Instruction(schema.DelegateCall(0, [0]))
        ),
        "instruction 0: delegate has index 0 of 0",
    ),
    "jump": (
        lambda p: p.chains[0].instructions.insert(
            0, schema.Instruction(schema.JumpFalseCall(0, 99))
        ),
        "instruction 0: destination has index 99 of 4",
    ),
    "condition": (
        lambda p: p.chains[0].instructions.insert(
            0, schema.Instruction(schema.JumpFalseCall(p.inputs[0], 0))
        ),
        "that is no flag",
    ),
    "list of itself": (
        lambda p: p.values.append(schema.EValue(schema.TensorList([len(p.values)]))),
        "has a TensorList as an item",
    ),
    "item": (
        lambda p: p.values.append(schema.EValue(schema.IntList([99]))),
        "an item has index 99 of",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_plan_that_contradicts_itself_is_refused(name: str) -> None:
    change, problem = CHANGES[name]
    program = rewritten(add(), change)
    with pytest.raises(ProgramError, match=problem) as caught:
        Interpreter(program, {}, AtenKernels())((X,))
    assert isinstance(caught.value, UnsupportedProgram) == (name == "enormous")


@pytest.mark.parametrize(
    "dtype", ["QINT8", "QUINT8", "QINT32", "QUINT4x2", "QUINT2x4", "BITS16", "COMPLEX32"]
)
def test_a_flipped_dtype_is_an_error(dtype: str) -> None:
    def flip(plan: schema.ExecutionPlan) -> None:
        tensor(plan).scalar_type = ScalarType[dtype]
        tensor(plan, plan.outputs[0]).scalar_type = ScalarType[dtype]
        planned(plan).memory_offset_low = 0
        plan.non_const_buffer_sizes[1] = 4096

    with pytest.raises(ProgramError, match=r"cannot be laid out|unknown scalar|float32, not"):
        Interpreter(rewritten(add(), flip), {}, AtenKernels())((X,))


def test_memory_that_no_tensor_reaches_is_not_laid_out() -> None:
    program = rewritten(
        add(), lambda plan: plan.non_const_buffer_sizes.__setitem__(1, 4 * get_host_memory_bytes())
    )
    (output,) = Interpreter(program, {}, AtenKernels())((X,))
    assert torch.equal(output, X + 1)


def test_a_missing_vector_is_refused() -> None:
    program = Program(add())
    tensor(program.plan).sizes = None  # type: ignore[assignment]
    with pytest.raises(ProgramError, match=r"value \d+, Tensor, lacks its sizes"):
        validate_plan(program.plan)


# What changes at random. One child runs all of it; that it dies is what must not happen.


@pytest.fixture(scope="session")
def child() -> Iterator[ChildProcess]:
    child = ChildProcess(
        Path(__file__).with_name("interpreting.py"),
        "the interpreter",
        {"OMP_NUM_THREADS": "1"},
        limit_memory=True,
    )
    yield child
    child.close()


@pytest.fixture(scope="session")
def programs() -> list[tuple[bytes, torch.Tensor]]:
    return [
        (program_of(forward, *calls[0], dynamic_shapes=dynamic), calls[0][0].contiguous())
        for forward, calls, dynamic in PROGRAMS.values()
    ]


def flipped(program: bytes, draw: random.Random) -> bytes:
    """A few bytes or words changed anywhere: header, tables, data."""
    data = bytearray(program)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        at = draw.randrange(len(data))
        if draw.random() < 0.6:
            data[at] = draw.choice((0, 1, 3, 12, 14, 16, 127, 128, 255, draw.randrange(256)))
        else:
            data[at // 4 * 4 : at // 4 * 4 + 4] = draw.choice(WORDS)
    return bytes(data)


def places(table: Any) -> Iterator[tuple[Any, Any]]:
    """Every number and every list in a table of the schema: what holds it, and where."""
    for field in dataclasses.fields(table):
        value = getattr(table, field.name)
        if isinstance(value, int | float):
            yield table, field.name
        elif dataclasses.is_dataclass(value):
            yield from places(value)
        elif isinstance(value, list):
            yield value, None
            for at, item in enumerate(value):
                if dataclasses.is_dataclass(item):
                    yield from places(item)
                elif isinstance(item, int | float):
                    yield value, at


def edited(program: bytes, draw: random.Random) -> bytes | None:
    """Numbers and lists of the plan changed; None where the result cannot be written down."""
    file: PTEFile = deserialize_pte_binary(program)
    everywhere = list(places(file.program.execution_plan[0]))
    for _ in range(draw.choice((1, 1, 2, 3))):
        holder, where = draw.choice(everywhere)
        if where is None:
            if holder and draw.random() < 0.5:
                holder.pop()
            elif holder:
                holder.append(draw.choice(holder))
        elif isinstance(holder, list):
            if where < len(holder):
                holder[where] = draw.choice(EDGES)
        else:
            kind = type(getattr(holder, where))
            try:
                setattr(holder, where, kind(draw.choice(EDGES)))
            except ValueError:
                return None
    try:
        return bytes(serialize_pte_binary(file))
    except Exception:
        return None


def ask(child: ChildProcess, task: Task) -> str:
    try:
        return child.ask(msgspec.msgpack.encode(task), 60).decode()
    except ProgramError as error:
        return str(error)


@pytest.mark.nightly
@pytest.mark.parametrize("change", [flipped, edited])
@pytest.mark.parametrize("executor", ["aten", "runtime"])
def test_changed_programs_are_refused_or_run(
    child: ChildProcess,
    programs: list[tuple[bytes, torch.Tensor]],
    change: Callable[[bytes, random.Random], bytes | None],
    executor: str,
) -> None:
    draw = random.Random(f"{change.__name__} {executor}")
    outcomes = {"refused": 0, "ran": 0}
    for _ in range(250):
        program, given = draw.choice(programs)
        if (broken := change(program, draw)) is None:
            continue
        task = Task(executor, broken, tuple(given.shape), given.numpy().tobytes())
        outcome = ask(child, task)
        if "was ended by" in outcome and executor == "runtime":
            # The runtime's own kernels may end the process; then they do so without us.
            assert ask(child, msgspec.structs.replace(task, executor="native")) == outcome
            continue
        word = outcome.partition(":")[0]
        assert word in outcomes, outcome
        outcomes[word] += 1
    assert min(outcomes.values()) > 20, f"the changes show nothing: {outcomes}"
