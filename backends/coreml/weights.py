"""Check that payloads store weights in the format that a recipe quantizes them to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from backends.coreml.payload import reader
from backends.coreml.payload.program import (
    MilConstant,
    MilOperation,
    MilProgram,
    MilReference,
)
from harness.backend_api import Lowered, op_name

# The codes of each operation that decodes weights.
_CODES = {"constexpr_blockwise_shift_scale": "data", "constexpr_lut_to_dense": "indices"}

_DECODERS = ("torchao.dequantize_affine.default", "quant.dequantize_codebook.default")


def find_problem(lowered: Lowered, element: str, operation: str) -> str | None:
    """Return a problem unless the payloads decode each quantized weight from codes of a type.

    Args:
        lowered: a lowered program with weights that torchao quantized.
        element: the MIL type of the codes.
        operation: the MIL operation that decodes them.
    """
    programs = [
        reader.load(payload.data, payload.named_data) for payload in lowered.program.delegates
    ]
    nodes = (node for node in lowered.exported.graph.nodes if node.op == "call_function")
    expected = sum(len(node.users) for node in nodes if op_name(node.target) in _DECODERS)
    return find_storage_problem(programs, element, operation, expected)


def find_storage_problem(
    programs: Sequence[MilProgram], element: str, operation: str, expected: int
) -> str | None:
    """Return a problem unless a number of operations read weights decoded from codes of a type.

    Uses are counted, since the converter stores equal weights once.
    """
    found = 0
    for program in programs:
        for decoder, dtype in list_decoded(program):
            if decoder.kind != operation:
                continue
            if dtype != element:
                return f"{operation} decodes {dtype}, expected {element}"
            found += _count_uses(program, decoder)
    if found != expected:
        return f"{found} operations read weights of {element}, expected {expected}"
    return None


def list_decoded(program: MilProgram) -> Iterator[tuple[MilOperation, str]]:
    """Yield the decoding operation of each stored weight, and the type of its codes."""
    for operation in program.function.body.walk():
        key = _CODES.get(operation.kind)
        if key is None:
            continue
        for constant in _find_codes(program, operation, key):
            yield operation, str(constant.type).partition("[")[0]


def _count_uses(program: MilProgram, decoder: MilOperation) -> int:
    """Count the inputs of operations that are results of one."""
    names = {each.name for each in decoder.outputs}
    return sum(
        isinstance(binding, MilReference) and binding.name in names
        for operation in program.function.body.walk()
        for bindings in operation.inputs.values()
        for binding in bindings
    )


def _find_codes(program: MilProgram, operation: MilOperation, key: str) -> Iterator[MilConstant]:
    if key in operation.attributes:  # before iOS 18
        yield operation.attributes[key]
    for binding in operation.inputs.get(key, ()):
        if isinstance(binding, MilConstant):
            yield binding
        elif isinstance(binding, MilReference):
            for other in program.function.body.walk():
                if "val" in other.attributes and other.outputs[0].name == binding.name:
                    yield other.attributes["val"]
