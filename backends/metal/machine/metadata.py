"""Convert the calls of a machine to calls of the contract, and check them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backends.metal import contract
from backends.metal.contract import FUNCTIONS, CallTensor
from backends.metal.machine.calls import Check, MachineCall
from backends.metal.machine.memory import CPU, DTYPES, Storage, Tensor
from backends.metal.machine.values import Closure


def make_check(
    checker: contract.Checker, report: Callable[[MachineCall, contract.Violation], None]
) -> Check:
    """Make a machine's ``check``: it passes every violation to ``report``, which may raise."""

    def check(call: MachineCall) -> bool:
        found = checker.check(convert_call(call))
        for violation in found:
            report(call, violation)
        return bool(found)

    return check


def convert_call(call: MachineCall) -> contract.RuntimeCall:
    """Convert a call of the machine to a call of the contract."""
    row = FUNCTIONS.get(call.name)
    arguments = [_value(argument) for argument in call.arguments]
    if row is not None and "dtype" in row.parameters:
        at = row.parameters.index("dtype")
        arguments[at] = _name(arguments[at])
    return contract.bind(call.name, *arguments)


def describe_tensor(tensor: Tensor) -> CallTensor:
    """Describe a tensor with the layout that the wrapper assumes."""
    meaning = tensor.meaning
    return CallTensor(
        str(tensor.dtype).removeprefix("torch."),
        tensor.sizes,
        meaning.strides,
        meaning.offset,
        meaning.room,
        tensor.origin,
        "cpu" if tensor.device == CPU else "mps",
    )


def _value(argument: Any) -> Any:
    if isinstance(argument, Tensor):
        return describe_tensor(argument)
    if isinstance(argument, Storage | Closure):
        return None
    return argument if isinstance(argument, int | float | str | tuple | None) else str(argument)


def _name(code: Any) -> str:
    return str(DTYPES.get(code, code)).removeprefix("torch.")
