"""List the operations and weights of a MIL program."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backends.coreml.payload.program import (
    MilBinding,
    MilBlock,
    MilConstant,
    MilOperation,
    MilProgram,
    MilReference,
)

_SHORT = 40


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
    yield from _list_block(program.function.body, "  ")


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


def _list_block(block: MilBlock, indent: str) -> Iterator[str]:
    for operation in block.operations:
        if operation.kind == "const" and not _is_weight(operation):
            continue  # shown where it is used
        results = ", ".join(f"{each.name} {each.type}" for each in operation.outputs)
        given = " ".join(
            f"{key}={', '.join(map(_format, bindings))}"
            for key, bindings in operation.inputs.items()
        )
        yield f"{indent}{operation.kind:<24} {results}{f' <- {given}' if given else ''}"
        for at, inner in enumerate(operation.blocks):
            yield f"{indent}  block {at}"
            yield from _list_block(inner, f"{indent}    ")
    yield f"{indent}{'return':<24} {', '.join(block.outputs)}"


def _is_weight(operation: MilOperation) -> bool:
    value = operation.attributes.get("val")
    return value is not None and value.blob is not None


def _format(binding: MilBinding) -> str:
    if isinstance(binding, MilReference):
        return binding.name
    if isinstance(binding.value, torch.Tensor):
        return str(binding.type)
    return repr(binding.value)[:_SHORT]
