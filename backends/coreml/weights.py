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
    expected = sum(op_name(node.target) in _DECODERS for node in nodes)
    return find_storage_problem(programs, element, operation, expected)


def find_storage_problem(
    programs: Sequence[MilProgram], element: str, operation: str, expected: int
) -> str | None:
    """Return a problem unless programs decode a number of weights from codes of a type."""
    found = [
        str(dtype)
        for program in programs
        for kind, dtype in list_decoded(program)
        if kind == operation
    ]
    if others := [dtype for dtype in found if dtype != element]:
        return f"{operation} decodes {others[0]}, expected {element}"
    if len(found) != expected:
        return f"{len(found)} weights of {element} in the delegates, expected {expected}"
    return None


def list_decoded(program: MilProgram) -> Iterator[tuple[str, str]]:
    """Yield the decoding operation of each stored weight, and the type of its codes."""
    for operation in program.function.body.walk():
        key = _CODES.get(operation.kind)
        if key is None:
            continue
        for constant in _find_codes(program, operation, key):
            yield operation.kind, str(constant.type).partition("[")[0]


def _find_codes(program: MilProgram, operation: MilOperation, key: str) -> Iterator[MilConstant]:
    if key in operation.attributes:  # before iOS 18
        yield operation.attributes[key]
    for binding in operation.inputs.get(key, ()):
        if isinstance(binding, MilConstant):
            yield binding
        elif isinstance(binding, MilReference):
            for other in program.function.body.walk():
                if any(each.name == binding.name for each in other.outputs):
                    if "val" in other.attributes:
                        yield other.attributes["val"]
