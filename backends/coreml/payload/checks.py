"""Check that names of a MIL program are defined before use, once, and with consistent types."""

from __future__ import annotations

from collections.abc import Mapping

from backends.coreml.payload.program import (
    CoremlPayloadError,
    MilBlock,
    MilOperation,
    MilParameter,
    MilProgram,
    MilReference,
    MilStateType,
    MilTensorType,
    MilType,
)

_STATES = {"read_state": "input", "write_state": "input"}
_BLOCKS = {"cond": 2, "while_loop": 2}


def check_program(program: MilProgram) -> None:
    """Check a program.

    Raises:
        CoremlPayloadError: a name is undefined, or defined twice; or the interface does not fit.
    """
    scope: dict[str, MilType] = {}
    _define(scope, program.function.inputs, "the function")
    for feature in program.inputs:
        declared = scope.get(feature.name)
        if not isinstance(declared, MilTensorType):
            raise CoremlPayloadError(f"the function has no input {feature.name[:80]!r}")
        if len(declared.shape) != len(feature.ranges or feature.shape):
            raise CoremlPayloadError(
                f"input {feature.name[:80]!r} is {declared} in the function and has "
                f"{len(feature.ranges or feature.shape)} dimensions in the description"
            )
    described = {feature.name for feature in program.inputs}
    for each in program.function.inputs:
        if not isinstance(each.type, MilStateType) and each.name not in described:
            raise CoremlPayloadError(f"metadata.json does not name the input {each.name[:80]!r}")
    body = program.function.body
    if body.inputs:
        raise CoremlPayloadError("the block of the function has inputs of its own")
    _check_block(body, scope)
    outputs = set(body.outputs)
    for feature in program.outputs:
        if feature.name not in outputs:
            raise CoremlPayloadError(f"the function has no output {feature.name[:80]!r}")


def _check_block(block: MilBlock, around: Mapping[str, MilType]) -> None:
    scope = dict(around)
    _define(scope, block.inputs, "a block")
    for operation in block.operations:
        _check_operation(operation, scope)
        _define(scope, operation.outputs, str(operation))
    for name in block.outputs:
        if name not in scope:
            raise CoremlPayloadError(f"a block returns {name[:80]!r}, which nothing defines")


def _check_operation(operation: MilOperation, scope: Mapping[str, MilType]) -> None:
    expected = _BLOCKS.get(operation.kind, 0)
    if len(operation.blocks) != expected:
        raise CoremlPayloadError(
            f"{operation} has {len(operation.blocks)} blocks, expected {expected}"
        )
    for key, bindings in operation.inputs.items():
        for binding in bindings:
            if not isinstance(binding, MilReference):
                continue
            if binding.name not in scope:
                raise CoremlPayloadError(
                    f"{operation}: input {key} is {binding.name[:80]!r}, which nothing before it "
                    "defines"
                )
            is_state = isinstance(scope[binding.name], MilStateType)
            if is_state != (_STATES.get(operation.kind) == key):
                what = "is a state" if is_state else "is no state"
                raise CoremlPayloadError(f"{operation}: input {key} {what}")
    for block in operation.blocks:
        _check_block(block, scope)


def _define(scope: dict[str, MilType], parameters: tuple[MilParameter, ...], where: str) -> None:
    for each in parameters:
        if each.name in scope:
            raise CoremlPayloadError(f"{where} defines {each.name[:80]!r} a second time")
        scope[each.name] = each.type
