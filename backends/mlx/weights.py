"""What the lowered program of a quantizing recipe must contain, and which weights it carries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from backends.mlx.payload import reader
from backends.mlx.payload.graph import Graph, Node
from backends.mlx.quantization import Format
from harness import DelegatePayload, Encoding, Program, op_name
from harness.numerics.formats.packing import unpack_codes
from harness.vendors.torch import is_traceable_wrapper_subclass

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from harness import Lowered

# The operator of a layer with a quantized weight, and what it has to become. Experts are
# gathered by an operator of the delegate's own, which has no other lowering.
PRODUCTS = {
    "aten.linear.default": "QuantizedMatmulNode",
    "aten.embedding.default": "DequantizeNode",
}


def verify(made: Format, lowered: Lowered) -> str | None:
    """Why the lowered program is not what the recipe stands for, or None.

    Args:
        made: the format of the recipe.
        lowered: the program.
    """
    graphs = [graph for graph, _ in _graphs(lowered.program)]
    return next(problems(graphs, made, expected(lowered.exported)), None)


def problems(graphs: Sequence[Graph], made: Format, wanted: Counter[str]) -> Iterator[str]:
    """What is wrong with the graphs of a program.

    Args:
        graphs: the program's graphs.
        made: the recipe's format.
        wanted: how many instructions of each kind it has to have.
    """
    found: Counter[str] = Counter()
    for node in _quantized(graphs):
        found[node.kind] += 1
        if (node.mode, node.group_size, node.bits) != (made.mode, made.block, made.bits):
            yield (
                f"{node.kind} has mode {node.mode}, {node.bits} bits in groups of "
                f"{node.group_size}; expected {made.mode}, {made.bits} bits in groups of "
                f"{made.block}"
            )
    for kind in PRODUCTS.values():
        if found[kind] != wanted[kind]:
            yield f"{found[kind]} {kind}, expected {wanted[kind]}"


def expected(exported: ExportedProgram) -> Counter[str]:
    """How many instructions the layers with a quantized weight have to become, by kind."""
    counts: Counter[str] = Counter()
    names = exported.graph_signature.inputs_to_parameters
    for node in exported.graph.nodes:
        kind = PRODUCTS.get(op_name(node.target)) if node.op == "call_function" else None
        for argument in node.all_input_nodes if kind else ():
            weight = exported.state_dict.get(names.get(argument.name, ""))
            if kind and is_traceable_wrapper_subclass(weight):
                counts[kind] += 1
    return counts


def encodings(made: Format, lowered: Lowered) -> list[Encoding]:
    """The weights of linear layers as the program carries them, each once."""
    found: dict[str, Encoding] = {}
    for graph, delegate in _graphs(lowered.program):
        data = {one.slot: one for one in reader.constants(graph, delegate.named_data)}
        for node in _quantized([graph]):
            if node.w not in data:
                continue  # rows of an embedding, taken before they are decoded
            codes, scales = data[node.w], data[node.scales]
            # "f4f7/0.parametrizations.weight.original0_mx_packed" was the parameter 0.weight.
            path = codes.name.rpartition("/")[2].partition(".original0")[0]
            name = path.replace("parametrizations.", "")
            found[name] = Encoding.of(
                name,
                made.element,
                made.block,
                codes.shape[-1] * 32 // made.bits,
                unpack_codes(bytes(codes.data), made.bits),
                bytes(scales.data),
            )
    return list(found.values())


def _graphs(program: Program) -> Iterator[tuple[Graph, DelegatePayload]]:
    for delegate in program.delegates:
        yield reader.load(delegate.data), delegate


def _quantized(graphs: Sequence[Graph]) -> Iterator[Node]:
    for graph in graphs:
        for chain in graph.chains:
            yield from (node for node in chain if node.kind in PRODUCTS.values())
