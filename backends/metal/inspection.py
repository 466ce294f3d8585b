"""Lines that ``conform show`` prints for a Metal cell: wrapper, kernels, checks of each call."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from backends.metal import contract
from backends.metal.contract.rule import DELEGATE
from backends.metal.cpp.wrapper import Wrapper
from backends.metal.cpp.wrapper_text import list_wrapper
from backends.metal.delegate import read_code
from backends.metal.fallbacks import IMPLEMENTATIONS, substitute
from backends.metal.generation.generated import Generated
from backends.metal.host.errors import SourceError
from backends.metal.host.kernel_source import parse
from backends.metal.machine.calls import MachineCall
from backends.metal.machine.machine import Machine
from backends.metal.machine.metadata import convert_call
from harness.backend_api import (
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
    """A call in the wrapper, and its violations of the contract.

    Attributes:
        call: the call, at its first execution.
        violations: the violations of all its executions, each once.
        times: number of its executions.
    """

    call: MachineCall
    violations: list[str] = field(default_factory=list)
    times: int = 0


@dataclass
class Inspected:
    """One delegate with its checked calls.

    Attributes:
        code: its generated code.
        checked: its calls by line and function, in the order of their first execution.
        failure: why its execution stopped early; empty if it did not.
    """

    code: Generated
    checked: dict[tuple[int, str, str], Checked] = field(default_factory=dict)
    failure: str = ""

    def collect(self, checker: contract.Checker, call: MachineCall) -> bool:
        """Check a call and return whether it breaks the contract."""
        # Calls around the wrapper have no line; their source names the input, output or constant.
        key = (call.line, call.name, "" if call.line else call.source)
        row = self.checked.setdefault(key, Checked(call))
        row.times += 1
        found = [str(violation) for violation in checker.check(convert_call(call))]
        row.violations += [text for text in found if text not in row.violations]
        return bool(found)


def inspect(attempt: InspectedCell) -> Iterator[str]:
    """Execute each delegate of a program, check its calls, and yield lines about them.

    Args:
        attempt: the cell.
    """
    delegates, failure = trace(attempt)
    if not delegates and not failure:
        yield f"nothing was delegated to {DELEGATE}"
    for number, inspected in enumerate(delegates):
        yield f"Metal delegate {number}"
        for line in (*list_code(inspected.code), *_list_checks(inspected)):
            yield f"  {line}".rstrip()
    if failure and not any(inspected.failure for inspected in delegates):
        yield f"the program cannot be executed: {failure}"


def trace(attempt: InspectedCell) -> tuple[list[Inspected], str]:
    """Run all calls of a case, and record broken rules instead of raising.

    Returns:
        The delegates, and why execution stopped early; empty if it did not.
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
    except Exception as error:  # printed instead of the missing lines
        return delegates, describe(error)
    return delegates, ""


def _load(payload: DelegatePayload, delegates: list[Inspected]) -> DelegateHandle:
    code = read_code(payload)
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
        inspected.failure = f"the delegate cannot be loaded: {describe(error)}"
        raise
    inputs = wrapper.inputs

    def run(arguments: list[Any]) -> None:
        tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
        try:
            machine.run(tensors[:inputs], tensors[inputs:])
        except Exception as error:
            inspected.failure = f"execution stopped here: {describe(error)}"
            raise

    return run


def list_code(code: Generated) -> Iterator[str]:
    """List the wrapper's statements and the source of each kernel.

    Args:
        code: the generated code of a delegate.

    Raises:
        ProgramError: the wrapper cannot be parsed.
    """
    yield from list_wrapper(Wrapper.parse(code.wrapper))
    for library, source in code.kernels.items():
        yield f"source of {library}"
        for line in strip_headers(source).splitlines():
            yield f"  {line}".rstrip()


def _list_checks(inspected: Inspected) -> Iterator[str]:
    """Yield a line for each call: whether it keeps the contract, and its violations."""
    rows = list(inspected.checked.values())
    broken = sum(bool(row.violations) for row in rows)
    yield f"contract: {len(rows)} calls, {broken} of them break a rule"
    for row in rows:
        yield from _verdict(row)
    if inspected.failure:
        yield inspected.failure


def strip_headers(source: str) -> str:
    """Return a kernel's source without the headers before it."""
    try:
        line = parse(source).line
    except SourceError:
        return textwrap.dedent(source)
    return textwrap.dedent("\n".join(source.splitlines()[line - 1 :]))


def _verdict(row: Checked) -> Iterator[str]:
    call = row.call
    if call.line:
        # A line can contain several calls.
        statement = call.source.strip().removeprefix("AOTI_TORCH_ERROR_CODE_CHECK")
        where = f"line {call.line} {call.name}: {textwrap.shorten(statement, _WIDTH)}"
    else:
        where = f"{call.source}: {call.name}"
    often = f" ({row.times} times)" if row.times > 1 else ""
    yield f"  {'broken' if row.violations else 'kept':<6} {where}{often}"
    for violation in row.violations:
        yield f"         {violation}"
