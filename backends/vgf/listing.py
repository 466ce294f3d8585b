"""List the interface, the segments and the operators of a VGF payload, a line each."""

from __future__ import annotations

from collections.abc import Iterator

from backends.vgf.payload import VgfModel, VgfSlot, read_model, read_parts
from backends.vgf.spirv import read_operators


def list_payload(data: bytes) -> Iterator[str]:
    """Yield a line of totals, then a line for each input, output, segment and operator.

    Args:
        data: the payload.

    Raises:
        ProgramError: the payload is no VGF, or it is damaged.
    """
    model = read_model(data)
    graphs = [module for module in model.modules if module.type == "GRAPH"]
    codes = read_parts(data, "--dump-spirv", (module.index for module in graphs))
    operators = {
        module.index: read_operators(code) for module, code in zip(graphs, codes, strict=True)
    }
    constants = sum(model.get_resource(each).nbytes or 0 for each in model.constants)
    version = model.header
    yield (
        f"VGF {version.major}.{version.minor}.{version.patch}, {len(model.modules)} modules, "
        f"{sum(map(len, operators.values()))} operators, {constants:,} bytes of constants"
    )
    for role, slots in (
        ("input", model.model_sequence.inputs),
        ("output", model.model_sequence.outputs),
    ):
        for slot in slots:
            yield f"  {role:<7} {_format_slot(model, slot)}"
    for segment in model.model_sequence.segments:
        yield f"  segment {segment.name}: {segment.type} module {segment.module_index}"
        for at, operator in enumerate(operators.get(segment.module_index, ())):
            operands = ", ".join(operator.operands)
            yield f"  {at:>5}  {operator.name:<22} {operator.result} <- {operands}"


def _format_slot(model: VgfModel, slot: VgfSlot) -> str:
    resource = model.get_resource(slot)
    return f"{slot.name} {resource.vk_format.removeprefix('VK_FORMAT_')}{list(resource.shape)}"
