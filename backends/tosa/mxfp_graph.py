"""Check the lowered program of an MX recipe: its block-scaled operators and its weights.

The expected operators are counted in the exported program, and the actual ones are read from the
delegates' flatbuffers. The partitioner's report is not used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from backends.tosa.graph import TosaGraph, TosaOperator, read_graph
from backends.tosa.mxfp import BLOCK, BlockFormat
from harness.backend_api import Encoding, Program, op_name
from harness.numerics.formats.packing import unpack_codes

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from harness.backend_api import Lowered

CAST = "CAST_TO_BLOCK_SCALED"
SCALE = "FP8UE8M0"
# The TOSA operator that each operator of a converted layer must become.
PRODUCTS = {
    "tosa_mxfp.linear.default": "MATMUL_T_BLOCK_SCALED",
    "tosa_mxfp.conv2d.default": "CONV2D_BLOCK_SCALED",
}


@dataclass(frozen=True)
class ConvertedLayer:
    """A call of a converted layer in the exported program.

    Attributes:
        weight: name of the float weight before conversion.
        product: the TOSA operator that the call must become.
        codes: the weight's codes, one byte each, block after block.
        scales: the weight's scales, one byte for each block.
        columns: codes of a row, a multiple of the block size.
        is_needed: whether the call depends on inputs, and outputs depend on the call. The compiler
            may remove or precompute any other call.
    """

    weight: str
    product: str
    codes: bytes
    scales: bytes
    columns: int
    is_needed: bool = True


def verify(block_format: BlockFormat, lowered: Lowered) -> str | None:
    """Say what is wrong with the lowered program of an MX recipe; None when it is right.

    Args:
        block_format: the recipe's format.
        lowered: the program.
    """
    undelegated = [name for name in lowered.delegation.undelegated_ops if name in PRODUCTS]
    if undelegated:
        return f"not delegated: {', '.join(undelegated)}"
    layers = find_converted_layers(lowered.exported, block_format)
    return next(find_problems(read_graphs(lowered.program), block_format, layers), None)


def read_encodings(block_format: BlockFormat, lowered: Lowered) -> list[Encoding]:
    """Read the weights in the delegates' flatbuffers, a record for each layer.

    Names come from the exported program; :func:`verify` checks that the bytes are equal.
    """
    delegated = {
        (codes, scales)
        for graph in read_graphs(lowered.program)
        for _, codes, scales in _read_weights(graph, block_format)
    }
    encodings: dict[str, Encoding] = {}
    for layer in find_converted_layers(lowered.exported, block_format):
        if (layer.codes, layer.scales) in delegated:
            encodings[layer.weight] = Encoding.of(
                layer.weight,
                _element(block_format),
                BLOCK,
                layer.columns,
                layer.codes,
                layer.scales,
            )
    return list(encodings.values())


def read_graphs(program: Program) -> list[TosaGraph]:
    """Read the TOSA graphs of a program, in the order of its delegates."""
    return [read_graph(payload.data) for payload in program.delegates]


def find_converted_layers(
    exported: ExportedProgram, block_format: BlockFormat
) -> list[ConvertedLayer]:
    """Find the calls of converted layers in an exported program, in order."""
    found = []
    needed = _find_needed_nodes(exported)
    for node in exported.graph.nodes:
        product = PRODUCTS.get(op_name(node.target)) if node.op == "call_function" else None
        if product is None:
            continue
        names = [exported.graph_signature.inputs_to_buffers[node.args[i].name] for i in (1, 2)]
        codes, scales = (exported.state_dict[name].contiguous() for name in names)
        data = codes.view(torch.uint8).numpy().tobytes()
        packed = codes.dtype == torch.uint8 and block_format.bits == 4
        found.append(
            ConvertedLayer(
                names[0].removesuffix("_qdata"),
                product,
                unpack_codes(data, 4) if packed else data,
                scales.view(torch.uint8).numpy().tobytes(),
                codes.shape[-1] * (2 if packed else 1),
                node in needed,
            )
        )
    return found


def _find_needed_nodes(exported: ExportedProgram) -> set[torch.fx.Node]:
    """Find nodes between inputs, or state that calls change, and outputs."""
    signature = exported.graph_signature
    sources = set(signature.user_inputs) | {
        name
        for name, buffer in signature.inputs_to_buffers.items()
        if buffer in signature.buffers_to_mutate.values()
    }
    varying: set[torch.fx.Node] = set()
    for node in exported.graph.nodes:
        if node.name in sources or not varying.isdisjoint(node.all_input_nodes):
            varying.add(node)
    read: set[torch.fx.Node] = set()
    for node in reversed(exported.graph.nodes):
        if node in read or node.op == "output" or node.is_impure():
            read |= {node, *node.all_input_nodes}
    return varying & read


def find_problems(
    graphs: Sequence[TosaGraph], block_format: BlockFormat, layers: Sequence[ConvertedLayer]
) -> Iterator[str]:
    """Compare the graphs of a program with the layers that it must contain; yield differences.

    Args:
        graphs: the program's graphs.
        block_format: the recipe's format.
        layers: the calls of converted layers.
    """
    if not layers:
        yield "no layer was converted before export"
    for graph in graphs:
        for operator in graph.operators:
            if operator.name == CAST:
                yield from _check_cast(graph, operator, block_format)
            elif operator.name in PRODUCTS.values():
                yield from _check_product(graph, operator, block_format)
    counts = Counter(operator.name for graph in graphs for operator in graph.operators)
    for product in PRODUCTS.values():
        calls = [layer for layer in layers if layer.product == product]
        least, most = sum(layer.is_needed for layer in calls), len(calls)
        if not least <= counts[product] <= most:
            expected = least if least == most else f"{least} to {most}"
            yield f"{counts[product]} {product}, expected {expected}"
    actual = Counter(weights for graph in graphs for weights in _read_weights(graph, block_format))
    allowed = Counter(map(_weight_key, layers))
    needed = Counter(_weight_key(layer) for layer in layers if layer.is_needed)
    if not needed <= actual <= allowed:
        missing = next(
            (
                layer.weight
                for layer in layers
                if layer.is_needed and _weight_key(layer) not in actual
            ),
            "a weight is used too often or too rarely",
        )
        yield f"the delegate's weights differ from the exported program: {missing}"


def _weight_key(layer: ConvertedLayer) -> tuple[str, bytes, bytes]:
    return layer.product, layer.codes, layer.scales


def _check_cast(graph: TosaGraph, cast: TosaOperator, block_format: BlockFormat) -> Iterator[str]:
    yield from _check_block_size(cast)
    if len(cast.outputs) != 2:
        yield f"{CAST} has {len(cast.outputs)} outputs, expected codes and scales"
        return
    yield from _check_operands(graph, f"outputs of {CAST}", cast.outputs, block_format)
    read_by = [operator for operator in graph.operators if cast.outputs[0] in operator.inputs]
    if not any(operator.name in PRODUCTS.values() for operator in read_by):
        yield f"no product reads the codes of a {CAST}"


def _check_product(
    graph: TosaGraph, product: TosaOperator, block_format: BlockFormat
) -> Iterator[str]:
    yield from _check_block_size(product)
    name = product.name
    if len(product.inputs) < 4:
        yield f"{name} has {len(product.inputs)} inputs, expected codes and scales of both operands"
        return
    yield from _check_operands(graph, f"activation of {name}", product.inputs[:2], block_format)
    yield from _check_operands(graph, f"weight of {name}", product.inputs[2:4], block_format)
    casts = [operator.outputs for operator in graph.operators if operator.name == CAST]
    if product.inputs[:2] not in casts:
        yield f"{name} does not take codes and scales, in this order, of one {CAST}"
    if not all(graph.tensors[part].data for part in product.inputs[2:4]):
        yield f"the weight of {name} is not a constant"
    if name == "CONV2D_BLOCK_SCALED":
        yield from _check_strides(graph, product)
    result = graph.tensors[product.outputs[0]].dtype
    if result != "FP32":
        yield f"{name} returns {result}, expected FP32"


def _check_strides(graph: TosaGraph, conv: TosaOperator) -> Iterator[str]:
    """Check strides: the reference model ends its process over a wrong one (``idiv_check``)."""
    size, kernel = (graph.tensors[conv.inputs[index]].shape[1:3] for index in (0, 2))
    pad, stride, dilation = (graph.shapes[name] for name in conv.inputs[5:8])
    for axis in (0, 1):
        before, after = pad[2 * axis : 2 * axis + 2]
        span = size[axis] - 1 + before + after - (kernel[axis] - 1) * dilation[axis]
        if span % stride[axis]:
            yield (
                f"invalid TOSA: the stride {stride[axis]} of {conv.name} does not divide {span}, "
                f"the distance that the kernel moves along axis {axis}"
            )


def _check_operands(
    graph: TosaGraph, operand: str, names: Sequence[str], block_format: BlockFormat
) -> Iterator[str]:
    """Check codes and scales: their types, and one scale for each block of the last dimension."""
    codes, scales = (graph.tensors[name] for name in names)
    if (codes.dtype, scales.dtype) != (block_format.payload, SCALE):
        expected = f"{block_format.payload} with {SCALE}"
        yield f"{operand}: {codes.dtype} with {scales.dtype}, expected {expected}"
    elif (*scales.shape[:-1], scales.shape[-1] * BLOCK) != codes.shape:
        yield f"{operand}: scales {scales.shape} for codes {codes.shape}"


def _check_block_size(operator: TosaOperator) -> Iterator[str]:
    if operator.block_size != BLOCK:
        yield f"{operator.name} has the block size {operator.block_size}, expected {BLOCK}"


def _read_weights(graph: TosaGraph, block_format: BlockFormat) -> list[tuple[str, bytes, bytes]]:
    """Return product, codes and scales of each weight, one byte for each code and each scale."""
    return [
        (
            operator.name,
            unpack_codes(graph.tensors[operator.inputs[2]].data, block_format.bits),
            graph.tensors[operator.inputs[3]].data,
        )
        for operator in graph.operators
        if operator.name in PRODUCTS.values() and len(operator.inputs) >= 4
    ]


def _element(block_format: BlockFormat) -> str:
    return block_format.name.partition("_")[2] or "e2m1"
