"""What the lowered program of an MX recipe must contain, and which weights it carries.

The expectation is counted in the exported program, what is there is read from the delegates'
flatbuffers: nothing is taken from what the partitioner reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from backends.tosa.graph import Graph, TosaOperator, read
from backends.tosa.mxfp import BLOCK, BlockFormat
from harness import Encoding, Program, op_name
from harness.numerics.formats.packing import unpacked

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from harness import Lowered

CAST = "CAST_TO_BLOCK_SCALED"
SCALE = "FP8UE8M0"
# The operator of a converted layer, and what it has to become.
PRODUCTS = {
    "tosa_mxfp.linear.default": "MATMUL_T_BLOCK_SCALED",
    "tosa_mxfp.conv2d.default": "CONV2D_BLOCK_SCALED",
}


@dataclass(frozen=True)
class Layer:
    """A call of a converted layer in the exported program.

    Attributes:
        weight: name of the float weight that it was.
        product: the TOSA operator that it has to become.
        codes: its codes, one byte each, a block beside the next.
        scales: its scales, one byte a block.
        columns: codes of a row, a multiple of the block size.
        is_needed: whether outputs depend on it, and it on inputs; the compiler may drop or compute
            what is not.
    """

    weight: str
    product: str
    codes: bytes
    scales: bytes
    columns: int
    is_needed: bool = True


def verify(made: BlockFormat, lowered: Lowered) -> str | None:
    """Why the lowered program is not what the recipe stands for, or None.

    Args:
        made: the format of the recipe.
        lowered: the program.
    """
    left = [name for name in lowered.delegation.undelegated_ops if name in PRODUCTS]
    if left:
        return f"left in the edge program: {', '.join(left)}"
    wanted = converted(lowered.exported, made)
    return next(problems(graphs(lowered.program), made, wanted), None)


def encodings(made: BlockFormat, lowered: Lowered) -> list[Encoding]:
    """The weights as the delegates' flatbuffers carry them, a record for each layer's.

    Names come from the exported program; :func:`verify` holds that the bytes are the same.
    """
    carried = {
        (codes, scales)
        for graph in graphs(lowered.program)
        for _, codes, scales in _weights(graph, made)
    }
    found: dict[str, Encoding] = {}
    for layer in converted(lowered.exported, made):
        if (layer.codes, layer.scales) in carried:
            found[layer.weight] = Encoding.of(
                layer.weight, _element(made), BLOCK, layer.columns, layer.codes, layer.scales
            )
    return list(found.values())


def graphs(program: Program) -> list[Graph]:
    """The TOSA graphs of a program, in the order of its delegates."""
    return [read(payload.data) for payload in program.delegates]


def converted(exported: ExportedProgram, made: BlockFormat) -> list[Layer]:
    """The calls of converted layers in an exported program, in order."""
    found = []
    needed = _needed(exported)
    for node in exported.graph.nodes:
        product = PRODUCTS.get(op_name(node.target)) if node.op == "call_function" else None
        if product is None:
            continue
        names = [exported.graph_signature.inputs_to_buffers[node.args[i].name] for i in (1, 2)]
        codes, scales = (exported.state_dict[name].contiguous() for name in names)
        data = codes.view(torch.uint8).numpy().tobytes()
        packed = codes.dtype == torch.uint8 and made.bits == 4
        found.append(
            Layer(
                names[0].removesuffix("_qdata"),
                product,
                unpacked(data, 4) if packed else data,
                scales.view(torch.uint8).numpy().tobytes(),
                codes.shape[-1] * (2 if packed else 1),
                node in needed,
            )
        )
    return found


def _needed(exported: ExportedProgram) -> set[torch.fx.Node]:
    """Nodes that depend on inputs, or on state that calls change, and that outputs depend on."""
    signature = exported.graph_signature
    given = set(signature.user_inputs) | {
        name
        for name, buffer in signature.inputs_to_buffers.items()
        if buffer in signature.buffers_to_mutate.values()
    }
    varying: set[torch.fx.Node] = set()
    for node in exported.graph.nodes:
        if node.name in given or not varying.isdisjoint(node.all_input_nodes):
            varying.add(node)
    read: set[torch.fx.Node] = set()
    for node in reversed(exported.graph.nodes):
        if node in read or node.op == "output" or node.is_impure():
            read |= {node, *node.all_input_nodes}
    return varying & read


def problems(found: Sequence[Graph], made: BlockFormat, wanted: Sequence[Layer]) -> Iterator[str]:
    """What is wrong with the graphs of a program, given the layers that it was made of.

    Args:
        found: the program's graphs.
        made: the recipe's format.
        wanted: the calls of converted layers.
    """
    if not wanted:
        yield "no layer was converted before export"
    for graph in found:
        for operator in graph.operators:
            if operator.name == CAST:
                yield from _of_cast(graph, operator, made)
            elif operator.name in PRODUCTS.values():
                yield from _of_product(graph, operator, made)
    counted = Counter(operator.name for graph in found for operator in graph.operators)
    for product in PRODUCTS.values():
        of_it = [layer for layer in wanted if layer.product == product]
        least, most = sum(layer.is_needed for layer in of_it), len(of_it)
        if not least <= counted[product] <= most:
            expected = least if least == most else f"{least} to {most}"
            yield f"{counted[product]} {product}, expected {expected}"
    carried = Counter(weights for graph in found for weights in _weights(graph, made))
    given = Counter(map(_weight_of, wanted))
    needed = Counter(_weight_of(layer) for layer in wanted if layer.is_needed)
    if not needed <= carried <= given:
        lost = next(
            (
                layer.weight
                for layer in wanted
                if layer.is_needed and _weight_of(layer) not in carried
            ),
            "how often one is used",
        )
        yield f"the graph's weights are not those of the exported program: {lost}"


def _weight_of(layer: Layer) -> tuple[str, bytes, bytes]:
    return layer.product, layer.codes, layer.scales


def _of_cast(graph: Graph, cast: TosaOperator, made: BlockFormat) -> Iterator[str]:
    yield from _block(cast)
    if len(cast.outputs) != 2:
        yield f"{CAST} has {len(cast.outputs)} outputs, expected codes and scales"
        return
    yield from _operands(graph, f"outputs of {CAST}", cast.outputs, made)
    read_by = [operator for operator in graph.operators if cast.outputs[0] in operator.inputs]
    if not any(operator.name in PRODUCTS.values() for operator in read_by):
        yield f"the codes of a {CAST} are multiplied by nothing"


def _of_product(graph: Graph, product: TosaOperator, made: BlockFormat) -> Iterator[str]:
    yield from _block(product)
    name = product.name
    if len(product.inputs) < 4:
        yield f"{name} has {len(product.inputs)} inputs, expected codes and scales of both"
        return
    yield from _operands(graph, f"activation of {name}", product.inputs[:2], made)
    yield from _operands(graph, f"weight of {name}", product.inputs[2:4], made)
    casts = [operator.outputs for operator in graph.operators if operator.name == CAST]
    if product.inputs[:2] not in casts:
        yield f"{name} does not take codes and scales, in this order, of one {CAST}"
    if not all(graph.tensors[part].data for part in product.inputs[2:4]):
        yield f"the weight of {name} is no constant"
    if name == "CONV2D_BLOCK_SCALED":
        yield from _of_strides(graph, product)
    result = graph.tensors[product.outputs[0]].dtype
    if result != "FP32":
        yield f"{name} returns {result}, expected FP32"


def _of_strides(graph: Graph, conv: TosaOperator) -> Iterator[str]:
    """The reference model kills the process over this one (``idiv_check`` of CONV2D)."""
    size, kernel = (graph.tensors[conv.inputs[index]].shape[1:3] for index in (0, 2))
    pad, stride, dilation = (graph.shapes[name] for name in conv.inputs[5:8])
    for axis in (0, 1):
        before, after = pad[2 * axis : 2 * axis + 2]
        span = size[axis] - 1 + before + after - (kernel[axis] - 1) * dilation[axis]
        if span % stride[axis]:
            yield (
                f"invalid TOSA: the stride {stride[axis]} of {conv.name} does not divide {span}, "
                f"the way of the kernel along axis {axis}"
            )


def _operands(graph: Graph, what: str, names: Sequence[str], made: BlockFormat) -> Iterator[str]:
    """Codes and their scales: types, and one scale for each block of the last dimension."""
    codes, scales = (graph.tensors[name] for name in names)
    if (codes.dtype, scales.dtype) != (made.payload, SCALE):
        yield f"{what}: {codes.dtype} with {scales.dtype}, expected {made.payload} with {SCALE}"
    elif (*scales.shape[:-1], scales.shape[-1] * BLOCK) != codes.shape:
        yield f"{what}: scales {scales.shape} for codes {codes.shape}"


def _block(operator: TosaOperator) -> Iterator[str]:
    if operator.block_size != BLOCK:
        yield f"{operator.name} has the block size {operator.block_size}, expected {BLOCK}"


def _weights(graph: Graph, made: BlockFormat) -> list[tuple[str, bytes, bytes]]:
    """Product, codes and scales of each weight, a byte a code and a block."""
    return [
        (
            operator.name,
            unpacked(graph.tensors[operator.inputs[2]].data, made.bits),
            graph.tensors[operator.inputs[3]].data,
        )
        for operator in graph.operators
        if operator.name in PRODUCTS.values() and len(operator.inputs) >= 4
    ]


def _element(made: BlockFormat) -> str:
    return made.name.partition("_")[2] or "e2m1"
