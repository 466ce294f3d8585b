"""List the operations and weights of a MIL program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from backends.coreml.payload.program import (
    MilBinding,
    MilBlock,
    MilConstant,
    MilProgram,
    MilReference,
)

_SHORT = 40
_FEW = 8


def list_operations(program: MilProgram) -> Iterator[str]:
    """Yield a line of totals, then a line for each input, state, output, weight and operation."""
    operations = list(program.function.body.walk())
    yield (
        f"{program.function.name} of {program.function.opset}, specification version "
        f"{program.version}: {sum(each.kind != 'const' for each in operations)} operations, "
        f"{sum(map(len, list_blobs(program))):,} bytes of weights"
    )
    for role, features in (("input", program.inputs), ("output", program.outputs)):
        for feature in features:
            dtype = str(feature.dtype).removeprefix("torch.")
            yield f"  {role:<8} {feature.name} {dtype}{list(feature.shape)}"
    for state in program.states:
        yield f"  {'state':<8} {state.name} {state.type}"
    constants = {
        operation.outputs[0].name: operation.attributes["val"]
        for operation in operations
        if operation.kind == "const" and operation.outputs and "val" in operation.attributes
    }
    yield from _list_block(program.function.body, constants, "  ")


def list_blobs(program: MilProgram) -> list[memoryview]:
    """Return the bytes of each value that the program has in a weight file, each once."""
    found: dict[int, memoryview] = {}
    for operation in program.function.body.walk():
        given = [binding for bindings in operation.inputs.values() for binding in bindings]
        for value in (*operation.attributes.values(), *given):
            if isinstance(value, MilConstant) and value.blob is not None:
                # Views of the payload: the address of the first byte is the place.
                found[id(value.blob)] = value.blob
    return list(found.values())


def _list_block(
    block: MilBlock, constants: Mapping[str, MilConstant], indent: str
) -> Iterator[str]:
    for operation in block.operations:
        if operation.kind == "const":
            continue  # shown where it is used
        results = ", ".join(f"{each.name} {each.type}" for each in operation.outputs)
        given = " ".join(
            f"{key}={', '.join(_format(binding, constants) for binding in bindings)}"
            for key, bindings in operation.inputs.items()
        )
        attributes = " ".join(
            f"{key}={_format(value, constants)}" for key, value in operation.attributes.items()
        )
        given = f"{given} {attributes}".strip()
        yield f"{indent}{operation.kind:<24} {results}{f' <- {given}' if given else ''}"
        for at, inner in enumerate(operation.blocks):
            yield f"{indent}  block {at}"
            yield from _list_block(inner, constants, f"{indent}    ")
    yield f"{indent}{'return':<24} {', '.join(block.outputs)}"


def _format(binding: MilBinding, constants: Mapping[str, MilConstant]) -> str:
    """Return the name of a value, or a constant: weights and long arrays by type."""
    constant = constants.get(binding.name) if isinstance(binding, MilReference) else binding
    if constant is None:
        return binding.name if isinstance(binding, MilReference) else "?"
    value = constant.value
    if not isinstance(value, torch.Tensor):
        return repr(value)[:_SHORT]
    if constant.blob is None and value.numel() <= _FEW:
        return str(value.tolist())
    name = f"{binding.name} " if isinstance(binding, MilReference) else ""
    return f"{name}{constant.type}"
