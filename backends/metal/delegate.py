"""A Metal payload as a delegate: the generated program is loaded into the machine."""

from __future__ import annotations

from typing import Any

import msgspec
import torch

from backends.metal import contract
from backends.metal.cpp.wrapper import Wrapper
from backends.metal.fallbacks import IMPLEMENTATIONS, substitute
from backends.metal.generation import generated
from backends.metal.generation.generated import Generated
from backends.metal.machine.calls import Call
from backends.metal.machine.machine import Machine
from backends.metal.machine.metadata import checking
from backends.metal.provenance import node_of
from harness import (
    Defect,
    DelegateHandle,
    DelegatePayload,
    PayloadConstants,
    ProgramError,
    StageFailure,
    report_defect,
)


class ContractViolation(ProgramError):
    """The generated code asks of the Metal runtime what it refuses or computes wrongly."""


def code_of(delegate: DelegatePayload) -> Generated:
    """The generated code in a payload.

    Raises:
        ProgramError: the payload was not made on a host without Apple hardware, or is damaged.
    """
    library, weights = (delegate.named_data[key] for key in _keys(delegate))
    try:
        return generated.decode(library, bytes(weights))
    except msgspec.MsgspecError as error:
        raise ProgramError(
            "the payload of MetalBackend holds no generated source: a library that was compiled "
            "on a Mac runs only there"
        ) from error


def _keys(delegate: DelegatePayload) -> list[str]:
    """Names of the two blobs that a payload is: a library, and weights."""
    keys = delegate.data.decode("utf-8", "replace").split("\n")
    if len(keys) != 2 or not all(key in delegate.named_data for key in keys):
        raise ProgramError("the payload of MetalBackend does not name two blobs of the program")
    return keys


def held(delegate: DelegatePayload) -> PayloadConstants:
    """The constants of a payload, one by one; what is compiled on a Mac tells of the blob alone.

    Raises:
        ProgramError: the payload is damaged.
    """
    keys = _keys(delegate)
    weights = memoryview(delegate.named_data[keys[1]])
    try:
        code = code_of(delegate)
    except ProgramError:
        return PayloadConstants([weights], frozenset(keys))
    places = [(one.start, one.start + one.size) for one in code.constants if not one.mutated]
    return PayloadConstants([weights[begin:end] for begin, end in places], frozenset(keys))


def load(delegate: DelegatePayload) -> DelegateHandle:
    """Parse the wrapper, load the constants, and return the executor.

    Raises:
        ProgramError: the payload is malformed, or the wrapper is not understood.
    """
    machine = machine_of(code_of(delegate))
    inputs = machine.program.inputs

    def call(arguments: list[Any]) -> None:
        if not all(isinstance(value, torch.Tensor) for value in arguments):
            raise ProgramError("the Metal delegate takes and returns tensors only")
        machine.run(arguments[:inputs], arguments[inputs:])

    return call


def machine_of(code: Generated, *, checked: bool = True) -> Machine:
    """The machine of generated code; breaking the contract is a failure of lowering: the code
    would have failed so on the device. Under :func:`harness.past_defects` it goes on."""

    def report(call: Call, violation: contract.Violation) -> None:
        text = f"{violation}; at {call.source.strip()}"
        defect = Defect(error=str(violation), node=node_of(code, call))
        report_defect(StageFailure("lower", ContractViolation(text)), defect)

    return Machine(
        Wrapper.parse(code.wrapper),
        code.kernels,
        code.tensors(),
        mutated={constant.spec.name for constant in code.constants if constant.mutated},
        checked=checked,
        check=checking(contract.Checker(), report),
        fallbacks=IMPLEMENTATIONS,
        substitute=substitute,
    )
