"""What ``conform show`` prints of a Metal cell: wrapper, kernels, the contract of each call."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from backends.metal import contract
from backends.metal.contract.rule import DELEGATE
from backends.metal.cpp.listing import lines
from backends.metal.cpp.wrapper import Wrapper
from backends.metal.delegate import code_of
from backends.metal.fallbacks import IMPLEMENTATIONS, substitute
from backends.metal.generation.generated import Generated
from backends.metal.host.errors import SourceError
from backends.metal.host.kernel_source import parse
from backends.metal.machine.calls import Call
from backends.metal.machine.machine import Machine
from backends.metal.machine.metadata import bound
from harness import (
    DelegateHandle,
    DelegatePayload,
    InspectedCell,
    Interpreter,
    RuntimeKernels,
    describe,
)

_WIDTH = 120


@dataclass
class Checked:
    """One call at its place in the wrapper.

    Attributes:
        call: as it was made the first time.
        violations: of all times it was made, each once.
        times: how often it was made.
    """

    call: Call
    violations: list[str] = field(default_factory=list)
    times: int = 0


@dataclass
class Inspected:
    """One delegate.

    Attributes:
        code: what was generated for it.
        checked: its calls by line and function, in the order that they were first made in.
        failure: why it could not be executed to its end.
    """

    code: Generated
    checked: dict[tuple[int, str, str], Checked] = field(default_factory=dict)
    failure: str = ""

    def collect(self, checker: contract.Checker, call: Call) -> bool:
        """Check a call, and go on whatever is wrong with it; whether something is."""
        # What the runtime does at the borders has no line; its source says for what it is done.
        key = (call.line, call.name, "" if call.line else call.source)
        row = self.checked.setdefault(key, Checked(call))
        row.times += 1
        found = [str(violation) for violation in checker.check(bound(call))]
        row.violations += [text for text in found if text not in row.violations]
        return bool(found)


def inspect(attempt: InspectedCell) -> Iterator[str]:
    """Lines about a serialized program; each delegate is executed and its calls are checked.

    Args:
        attempt: the cell, as far as it came.
    """
    delegates, failure = trace(attempt)
    if not delegates and not failure:
        yield f"nothing was delegated to {DELEGATE}"
    for number, inspected in enumerate(delegates):
        yield f"Metal delegate {number}"
        for line in (*listing(inspected.code), *_checks(inspected)):
            yield f"  {line}".rstrip()
    if failure and not any(inspected.failure for inspected in delegates):
        yield f"the program cannot be executed: {failure}"


def trace(attempt: InspectedCell) -> tuple[list[Inspected], str]:
    """Run all calls of a case with a contract that notes instead of refusing.

    Returns:
        The delegates, and why execution ended early; empty if it did not.
    """
    delegates: list[Inspected] = []
    program = attempt.lowered.program
    if not program.plan.delegates:
        return [], ""
    try:
        loaders = {DELEGATE: lambda payload: _load(payload, delegates)}
        interpreter = Interpreter(program, loaders, RuntimeKernels())
        for inputs in attempt.calls:
            interpreter(inputs)
    except Exception as error:  # shown in place of what does not come
        return delegates, describe(error)
    return delegates, ""


def _load(payload: DelegatePayload, delegates: list[Inspected]) -> DelegateHandle:
    code = code_of(payload)
    wrapper = Wrapper.parse(code.wrapper)
    inspected = Inspected(code)
    delegates.append(inspected)
    checker = contract.Checker()
    try:
        machine = Machine(
            wrapper,
            code.kernels,
            code.tensors(),
            check=lambda call: inspected.collect(checker, call),
            fallbacks=IMPLEMENTATIONS,
            substitute=substitute,
        )
    except Exception as error:
        inspected.failure = f"it cannot be loaded: {describe(error)}"
        raise
    inputs = wrapper.inputs

    def run(arguments: list[Any]) -> None:
        tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
        try:
            machine.run(tensors[:inputs], tensors[inputs:])
        except Exception as error:
            inspected.failure = f"execution ends here: {describe(error)}"
            raise

    return run


def listing(code: Generated) -> Iterator[str]:
    """The wrapper's statements and each kernel's source.

    Args:
        code: what was generated for a delegate.

    Raises:
        ProgramError: the wrapper is not understood.
    """
    yield from lines(Wrapper.parse(code.wrapper))
    for library, source in code.kernels.items():
        yield f"source of {library}"
        for line in own_source(source).splitlines():
            yield f"  {line}".rstrip()


def _checks(inspected: Inspected) -> Iterator[str]:
    """A line for each call's contract."""
    rows = list(inspected.checked.values())
    broken = sum(bool(row.violations) for row in rows)
    yield f"contract: {len(rows)} calls, {broken} of them break it"
    for row in rows:
        yield from _verdict(row)
    if inspected.failure:
        yield inspected.failure


def own_source(source: str) -> str:
    """A kernel without the headers that are pasted before it."""
    try:
        line = parse(source).line
    except SourceError:
        return textwrap.dedent(source)
    return textwrap.dedent("\n".join(source.splitlines()[line - 1 :]))


def _verdict(row: Checked) -> Iterator[str]:
    call = row.call
    if call.line:
        # One line may make several calls.
        statement = call.source.strip().removeprefix("AOTI_TORCH_ERROR_CODE_CHECK")
        where = f"line {call.line} {call.name}: {textwrap.shorten(statement, _WIDTH)}"
    else:
        where = f"{call.source}: {call.name}"
    often = f" ({row.times} times)" if row.times > 1 else ""
    yield f"  {'broken' if row.violations else 'kept':<6} {where}{often}"
    for violation in row.violations:
        yield f"         {violation}"
