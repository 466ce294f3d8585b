"""Execute a Metal payload as a delegate: load its generated code into the machine."""

from __future__ import annotations

from typing import Any

import msgspec
import torch

from backends.metal import contract
from backends.metal.cpp.wrapper import Wrapper
from backends.metal.fallbacks import IMPLEMENTATIONS, substitute
from backends.metal.generation import generated
from backends.metal.generation.generated import Generated
from backends.metal.machine.calls import MachineCall
from backends.metal.machine.machine import Machine
from backends.metal.machine.metadata import make_check
from backends.metal.provenance import find_node
from harness import ProgramError, StageFailure
from harness.backend_api import (
    Defect,
    DelegateHandle,
    DelegatePayload,
    PayloadConstants,
    report_defect,
)


class ContractViolation(ProgramError):
    """A call of the generated code that the Metal runtime refuses or computes wrongly."""


def read_code(delegate: DelegatePayload) -> Generated:
    """Read the generated code in a payload.

    Raises:
        ProgramError: the payload was generated on a Mac, or it is damaged.
    """
    library, weights = (delegate.named_data[key] for key in _keys(delegate))
    try:
        return generated.decode(library, bytes(weights))
    except msgspec.MsgspecError as error:
        raise ProgramError(
            "the payload of MetalBackend contains no generated source: a library that was compiled "
            "on a Mac runs only there"
        ) from error


def _keys(delegate: DelegatePayload) -> list[str]:
    """Return the names of the payload's two blobs: a library, and weights."""
    keys = delegate.data.decode("utf-8", "replace").split("\n")
    if len(keys) != 2 or not all(key in delegate.named_data for key in keys):
        raise ProgramError("the payload of MetalBackend does not name two blobs of the program")
    return keys


def read_constants(delegate: DelegatePayload) -> PayloadConstants:
    """Return the constants of a payload; from a Mac, one blob with all weights.

    Raises:
        ProgramError: the payload is damaged.
    """
    keys = _keys(delegate)
    weights = memoryview(delegate.named_data[keys[1]])
    try:
        code = read_code(delegate)
    except ProgramError:
        return PayloadConstants([weights], frozenset(keys))
    places = [(one.start, one.start + one.size) for one in code.constants if not one.mutated]
    return PayloadConstants([weights[begin:end] for begin, end in places], frozenset(keys))


def load(delegate: DelegatePayload) -> DelegateHandle:
    """Parse the wrapper, load the constants, and return a function that executes the payload.

    Raises:
        ProgramError: the payload is malformed, or the wrapper cannot be parsed.
    """
    machine = make_machine(read_code(delegate))
    inputs = machine.program.inputs

    def call(arguments: list[Any]) -> None:
        if not all(isinstance(value, torch.Tensor) for value in arguments):
            raise ProgramError("the Metal delegate takes and returns tensors only")
        machine.run(arguments[:inputs], arguments[inputs:])

    return call


def make_machine(code: Generated, *, checked: bool = True) -> Machine:
    """Make the machine that executes generated code.

    A broken rule of the contract fails stage ``lower``, since the code would fail on the device.
    Within :func:`harness.backend_api.past_defects` execution continues.
    """

    def report(call: MachineCall, violation: contract.Violation) -> None:
        text = f"{violation}; at {call.source.strip()}"
        defect = Defect(error=str(violation), node=find_node(code, call))
        report_defect(StageFailure("lower", ContractViolation(text)), defect)

    return Machine(
        Wrapper.parse(code.wrapper),
        code.kernels,
        code.tensors(),
        mutated={constant.spec.name for constant in code.constants if constant.mutated},
        checked=checked,
        check=make_check(contract.Checker(), report),
        fallbacks=IMPLEMENTATIONS,
        substitute=substitute,
    )
