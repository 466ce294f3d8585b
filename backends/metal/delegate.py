"""A Metal payload as a delegate: the generated program is loaded into the machine."""

from __future__ import annotations

from typing import Any

import msgspec
import torch

from backends.metal import contract
from backends.metal.cpp.wrapper import Wrapper
from backends.metal.fallbacks import IMPLEMENTATIONS
from backends.metal.generation import generated
from backends.metal.generation.generated import Generated
from backends.metal.machine.calls import Call
from backends.metal.machine.machine import Machine
from backends.metal.machine.metadata import checking
from harness import DelegateHandle, DelegatePayload, ProgramError, StageFailure


class ContractViolation(ProgramError):
    """The generated code asks of the Metal runtime what it refuses or computes wrongly."""


def code_of(delegate: DelegatePayload) -> Generated:
    """The generated code in a payload.

    Raises:
        ProgramError: the payload was not made on a host without Apple hardware, or is damaged.
    """
    keys = delegate.data.decode("utf-8", "replace").split("\n")
    if len(keys) != 2 or not all(key in delegate.named_data for key in keys):
        raise ProgramError("the payload of MetalBackend does not name two blobs of the program")
    library, weights = (delegate.named_data[key] for key in keys)
    try:
        return generated.decode(library, bytes(weights))
    except msgspec.MsgspecError as error:
        raise ProgramError(
            "the payload of MetalBackend holds no generated source: a library that was compiled "
            "on a Mac runs only there"
        ) from error


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
    would have failed so on the device."""

    def report(call: Call, violation: contract.Violation) -> None:
        raise StageFailure("lower", ContractViolation(f"{violation}; at {call.source.strip()}"))

    return Machine(
        Wrapper.parse(code.wrapper),
        code.kernels,
        code.tensors(),
        mutated={constant.spec.name for constant in code.constants if constant.mutated},
        checked=checked,
        check=checking(contract.Checker(), report),
        fallbacks=IMPLEMENTATIONS,
    )
