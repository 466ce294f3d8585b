"""Check the lowered program of a quantizing recipe, and read its quantized weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from backends.mlx.payload import reader
from backends.mlx.payload.graph import MlxGraph, Node
from backends.mlx.quantization import MlxWeightFormat
from harness.backend_api import DelegatePayload, Encoding, Program, op_name
from harness.numerics.formats.packing import unpack_codes
from harness.vendors.torch import is_traceable_wrapper_subclass

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from harness.backend_api import Lowered

# The instruction that each operator of a layer with a quantized weight must become. Experts are
# gathered by an operator of the delegate's own, which has no other lowering.
PRODUCTS = {
    "aten.linear.default": "QuantizedMatmulNode",
    "aten.embedding.default": "DequantizeNode",
}


def verify(weight_format: MlxWeightFormat, lowered: Lowered) -> str | None:
    """Say what is wrong with the lowered program of a quantizing recipe; None when it is right.

    Args:
        weight_format: the recipe's format.
        lowered: the program.
    """
    graphs = [graph for graph, _ in _read_graphs(lowered.program)]
    expected = count_expected_instructions(lowered.exported)
    return next(find_problems(graphs, weight_format, expected), None)


def find_problems(
    graphs: Sequence[MlxGraph], weight_format: MlxWeightFormat, expected: Counter[str]
) -> Iterator[str]:
    """Compare the graphs of a program with its recipe; yield differences.

    Args:
        graphs: the program's graphs.
        weight_format: the recipe's format.
        expected: number of instructions of each kind that the program must have.
    """
    counts: Counter[str] = Counter()
    wanted = weight_format
    for node in _find_quantized_nodes(graphs):
        counts[node.kind] += 1
        if (node.mode, node.group_size, node.bits) != (wanted.mode, wanted.block, wanted.bits):
            yield (
                f"{node.kind} has mode {node.mode}, {node.bits} bits in groups of "
                f"{node.group_size}; expected {wanted.mode}, {wanted.bits} bits in groups of "
                f"{wanted.block}"
            )
    for kind in PRODUCTS.values():
        if counts[kind] != expected[kind]:
            yield f"{counts[kind]} {kind}, expected {expected[kind]}"


def count_expected_instructions(exported: ExportedProgram) -> Counter[str]:
    """Count the instructions that layers with a quantized weight must become, by kind."""
    counts: Counter[str] = Counter()
    names = exported.graph_signature.inputs_to_parameters
    for node in exported.graph.nodes:
        kind = PRODUCTS.get(op_name(node.target)) if node.op == "call_function" else None
        for argument in node.all_input_nodes if kind else ():
            weight = exported.state_dict.get(names.get(argument.name, ""))
            # An affine weight is not a tensor subclass: an operator of the graph decodes it.
            is_decoded = op_name(argument.target) == "torchao.dequantize_affine.default"
            if kind and (is_decoded or is_traceable_wrapper_subclass(weight)):
                counts[kind] += 1
    return counts


def read_encodings(weight_format: MlxWeightFormat, lowered: Lowered) -> list[Encoding]:
    """Read the quantized weights of linear layers from the program, each once."""
    encodings: dict[str, Encoding] = {}
    for graph, delegate in _read_graphs(lowered.program):
        data = {one.slot: one for one in reader.load_constants(graph, delegate.named_data)}
        for node in _find_quantized_nodes([graph]):
            if node.w not in data:
                continue  # an embedding: its rows are gathered before they are decoded
            codes, scales = data[node.w], data[node.scales]
            # "f4f7/0.parametrizations.weight.original0_mx_packed" was the parameter 0.weight.
            path = codes.name.rpartition("/")[2].partition(".original0")[0]
            name = path.replace("parametrizations.", "")
            encodings[name] = Encoding.of(
                name,
                weight_format.element,
                weight_format.block,
                codes.shape[-1] * 32 // weight_format.bits,
                unpack_codes(bytes(codes.data), weight_format.bits),
                bytes(scales.data),
            )
    return list(encodings.values())


def _read_graphs(program: Program) -> Iterator[tuple[MlxGraph, DelegatePayload]]:
    for delegate in program.delegates:
        yield reader.load(delegate.data), delegate


def _find_quantized_nodes(graphs: Sequence[MlxGraph]) -> Iterator[Node]:
    for graph in graphs:
        for chain in graph.chains:
            yield from (node for node in chain if node.kind in PRODUCTS.values())
