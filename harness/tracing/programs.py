"""Builds programs from a graph: with more outputs, up to a node, or of a few nodes alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from harness.model.case import CallInputs
from harness.tracing.candidates import find_weight_preparation, is_dequantize, is_quantize
from harness.tracing.value_flow import ValueFlow
from harness.vendors.torch import _PyTreeCodeGen, tree_structure


@dataclass(frozen=True)
class ProbeProgram:
    """A module with its inputs.

    Attributes:
        module: the module to export.
        calls: inputs of each call.
        dynamic_shapes: as for ``torch.export.export``.
        values: the node of the original graph behind each output; None for an output of the
            original program.
    """

    module: GraphModule
    calls: tuple[CallInputs, ...]
    dynamic_shapes: Any = None
    values: tuple[Node | None, ...] = ()


def build_tapped(
    flow: ValueFlow, taps: Sequence[Node], calls: tuple[CallInputs, ...], shapes: Any
) -> ProbeProgram:
    """Build the whole program with the values of some nodes as additional outputs."""
    graph, copies = _copy_graph(flow)
    output = graph.output_node()
    plain = tuple(output.args[0])  # type: ignore[arg-type]  # a pytree graph returns a tuple
    module = _make_module(
        flow, graph, (*plain, *(_add_tap(flow, graph, copies, tap) for tap in taps))
    )
    return ProbeProgram(module, calls, shapes, (*(None for _ in plain), *taps))


def build_prefix(
    flow: ValueFlow, end: Node, calls: tuple[CallInputs, ...], shapes: Any
) -> ProbeProgram:
    """Build the program up to a node, whose value is its output."""
    return build_multi_prefix(flow, [end], calls, shapes)


def build_multi_prefix(
    flow: ValueFlow, ends: Sequence[Node], calls: tuple[CallInputs, ...], shapes: Any
) -> ProbeProgram:
    """Build the program up to some nodes, whose values are its outputs."""
    graph, copies = _copy_graph(flow)
    module = _make_module(flow, graph, tuple(_add_tap(flow, graph, copies, end) for end in ends))
    needed = {
        copies[node] for node in flow.find_ancestors(ends, lambda source: False) if node in copies
    }
    needed.update(module.graph.output_node().all_input_nodes)
    for node in reversed(module.graph.nodes):
        if node.op not in ("placeholder", "output") and node not in needed:
            module.graph.erase_node(node)
    module.recompile()
    return ProbeProgram(module, calls, shapes, tuple(ends))


def _copy_graph(flow: ValueFlow) -> tuple[Graph, dict[Node, Node]]:
    graph, copies = Graph(), dict[Node, Node]()
    returned = graph.graph_copy(flow.module.graph, copies)
    graph.output(returned)
    graph._codegen = flow.module.graph._codegen
    return graph, copies


def _add_tap(flow: ValueFlow, graph: Graph, copies: Mapping[Node, Node], node: Node) -> Node:
    """Return a node whose value can be an output without changing how other nodes are lowered."""
    copy = copies[node]
    with graph.inserting_after(copy):
        if is_dequantize(node):
            # Dequantized separately: the kernel that uses the quantized value has its own.
            return graph.node_copy(copy, lambda argument: argument)
        if flow.is_written(node):
            return graph.call_function(torch.ops.aten.clone.default, (copy,))
    return copy


def _make_module(flow: ValueFlow, graph: Graph, outputs: tuple[Any, ...]) -> GraphModule:
    """Return the graph as a module with the same inputs, which returns a tuple."""
    graph.output_node().args = (outputs,)
    codegen = graph._codegen
    if isinstance(codegen, _PyTreeCodeGen):
        spec = tree_structure(outputs)
        graph.set_codegen(_PyTreeCodeGen(codegen.pytree_info._replace(out_spec=spec)))
    return GraphModule(flow.module, graph)


def build_window(
    flow: ValueFlow, nodes: Sequence[Node], end: Node, values: Mapping[Node, Any]
) -> ProbeProgram:
    """Build a program of some nodes alone, called once.

    Args:
        flow: the graph.
        nodes: the nodes.
        end: the node whose value is the output.
        values: values of :func:`find_window_inputs`. Tensors become inputs, or buffers where the
            program writes them; numbers become constants.
    """
    inside = {*nodes, *find_weight_preparation(flow, nodes)}
    graph = Graph()
    copies: dict[Node, Any] = {}
    inputs = []
    for source in find_window_inputs(flow, nodes):
        value = values.get(source)
        if source.op == "get_attr":
            continue
        if isinstance(value, torch.Tensor):
            copies[source] = graph.placeholder(source.name)
            inputs.append(value)
        else:
            copies[source] = value
    given = [source for source in copies if is_dequantize(source)]
    for node in flow.nodes:
        if node.op == "get_attr" and any(user in inside for user in node.users):
            copies[node] = graph.node_copy(node)
        elif node in inside:
            copies[node] = graph.node_copy(node, copies.__getitem__)
        elif node in given:
            copies[node] = _requantize_input(graph, node, copies)
    graph.output((copies[end],))
    module = GraphModule(flow.module, graph)
    for source, value in values.items():
        if source.op == "get_attr" and isinstance(value, torch.Tensor):
            _set_buffer(module, str(source.target), value)
    return ProbeProgram(module, (tuple(inputs),), None, (end,))


def find_window_inputs(flow: ValueFlow, nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes outside of some nodes whose values these need, except weights, in graph
    order.
    """
    inside = {*nodes, *find_weight_preparation(flow, nodes)}
    used = {source for node in inside for source in node.all_input_nodes} - inside
    return [
        node
        for node in flow.nodes
        if node in used and (node.op != "get_attr" or flow.is_written(node))
    ]


def _requantize_input(graph: Graph, node: Node, copies: dict[Node, Any]) -> Node:
    """Return an input in place of a dequantized value, quantized and dequantized again, because the
    kernel that uses it takes quantized values.
    """
    given: Node = copies[node]
    codes = node.args[0]
    if not isinstance(codes, Node) or not is_quantize(codes):
        return given
    for source in (*codes.all_input_nodes[1:], *node.all_input_nodes[1:]):
        if source not in copies:
            copies[source] = graph.node_copy(source)
    numbers = codes.args[0]
    encoded = graph.node_copy(codes, lambda each: given if each is numbers else copies[each])
    return graph.node_copy(node, lambda each: encoded if each is codes else copies[each])


def _set_buffer(module: torch.nn.Module, path: str, value: torch.Tensor) -> None:
    owner, _, name = path.rpartition(".")
    holder = module.get_submodule(owner)
    if name in holder._parameters:
        del holder._parameters[name]
    holder.register_buffer(name, value)
