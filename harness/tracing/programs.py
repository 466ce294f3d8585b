"""Programs made of a graph: with more outputs, up to a node, or of a few nodes alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from harness.model.case import Given
from harness.tracing.candidates import decodes, encodes, prepared
from harness.tracing.value_flow import Flow
from harness.vendors.torch import _PyTreeCodeGen, tree_structure


@dataclass(frozen=True)
class Program:
    """A module with what it is called with.

    Attributes:
        module: what is exported.
        calls: inputs of each call.
        dynamic_shapes: as ``torch.export.export`` takes it.
        values: the node of the original graph behind each output; None for an output of the
            original program.
    """

    module: GraphModule
    calls: tuple[Given, ...]
    dynamic_shapes: Any = None
    values: tuple[Node | None, ...] = ()


def tapped(flow: Flow, taps: Sequence[Node], calls: tuple[Given, ...], shapes: Any) -> Program:
    """The whole program, which returns the values of some nodes besides."""
    graph, copies = _copy(flow)
    output = graph.output_node()
    plain = tuple(output.args[0])  # type: ignore[arg-type]  # a pytree graph returns a tuple
    module = _finished(flow, graph, (*plain, *(_tap(flow, graph, copies, tap) for tap in taps)))
    return Program(module, calls, shapes, (*(None for _ in plain), *taps))


def prefix(flow: Flow, end: Node, calls: tuple[Given, ...], shapes: Any) -> Program:
    """The program as far as it is needed for the value of a node, which is its output."""
    return leading(flow, [end], calls, shapes)


def leading(flow: Flow, ends: Sequence[Node], calls: tuple[Given, ...], shapes: Any) -> Program:
    """The program as far as it is needed for the values of some nodes, which are its outputs."""
    graph, copies = _copy(flow)
    module = _finished(flow, graph, tuple(_tap(flow, graph, copies, end) for end in ends))
    needed = {copies[node] for node in flow.behind(ends, lambda source: False) if node in copies}
    needed.update(module.graph.output_node().all_input_nodes)
    for node in reversed(module.graph.nodes):
        if node.op not in ("placeholder", "output") and node not in needed:
            module.graph.erase_node(node)
    module.recompile()
    return Program(module, calls, shapes, tuple(ends))


def _copy(flow: Flow) -> tuple[Graph, dict[Node, Node]]:
    graph, copies = Graph(), dict[Node, Node]()
    returned = graph.graph_copy(flow.module.graph, copies)
    graph.output(returned)
    graph._codegen = flow.module.graph._codegen
    return graph, copies


def _tap(flow: Flow, graph: Graph, copies: Mapping[Node, Node], node: Node) -> Node:
    """A node whose value is an output, and changes nothing in how others are lowered."""
    copy = copies[node]
    with graph.inserting_after(copy):
        if decodes(node):
            # Decoded once more: the kernel that takes the codes has its own.
            return graph.node_copy(copy, lambda argument: argument)
        if flow.is_written(node):
            return graph.call_function(torch.ops.aten.clone.default, (copy,))
    return copy


def _finished(flow: Flow, graph: Graph, outputs: tuple[Any, ...]) -> GraphModule:
    """The graph as a module that takes what it took and returns a tuple."""
    graph.output_node().args = (outputs,)
    codegen = graph._codegen
    if isinstance(codegen, _PyTreeCodeGen):
        spec = tree_structure(outputs)
        graph.set_codegen(_PyTreeCodeGen(codegen.pytree_info._replace(out_spec=spec)))
    return GraphModule(flow.module, graph)


def window(flow: Flow, nodes: Sequence[Node], end: Node, values: Mapping[Node, Any]) -> Program:
    """A program of some nodes alone, called once.

    Args:
        flow: the graph.
        nodes: what it is made of.
        end: one of them, whose value is the output.
        values: what :func:`taken` from outside holds: tensors, which become inputs or, where they
            are state that the program writes, buffers; and numbers, which become constants.
    """
    inside = {*nodes, *prepared(flow, nodes)}
    graph = Graph()
    copies: dict[Node, Any] = {}
    inputs = []
    for source in taken(flow, nodes):
        value = values.get(source)
        if source.op == "get_attr":
            continue
        if isinstance(value, torch.Tensor):
            copies[source] = graph.placeholder(source.name)
            inputs.append(value)
        else:
            copies[source] = value
    given = [source for source in copies if decodes(source)]
    for node in flow.nodes:
        if node.op == "get_attr" and any(user in inside for user in node.users):
            copies[node] = graph.node_copy(node)
        elif node in inside:
            copies[node] = graph.node_copy(node, copies.__getitem__)
        elif node in given:
            copies[node] = _coded(graph, node, copies)
    graph.output((copies[end],))
    module = GraphModule(flow.module, graph)
    for source, value in values.items():
        if source.op == "get_attr" and isinstance(value, torch.Tensor):
            _set(module, str(source.target), value)
    return Program(module, (tuple(inputs),), None, (end,))


def taken(flow: Flow, nodes: Sequence[Node]) -> list[Node]:
    """What a program of some nodes needs the values of: what they use and is neither of them nor a
    weight, in the order of the graph."""
    inside = {*nodes, *prepared(flow, nodes)}
    used = {source for node in inside for source in node.all_input_nodes} - inside
    return [
        node
        for node in flow.nodes
        if node in used and (node.op != "get_attr" or flow.is_written(node))
    ]


def _coded(graph: Graph, node: Node, copies: dict[Node, Any]) -> Node:
    """An input that stands for a decoded value, encoded and decoded again, as the kernel that uses
    it takes codes."""
    given: Node = copies[node]
    codes = node.args[0]
    if not isinstance(codes, Node) or not encodes(codes):
        return given
    for source in (*codes.all_input_nodes[1:], *node.all_input_nodes[1:]):
        if source not in copies:
            copies[source] = graph.node_copy(source)
    numbers = codes.args[0]
    encoded = graph.node_copy(codes, lambda each: given if each is numbers else copies[each])
    return graph.node_copy(node, lambda each: encoded if each is codes else copies[each])


def _set(module: torch.nn.Module, path: str, value: torch.Tensor) -> None:
    owner, _, name = path.rpartition(".")
    holder = module.get_submodule(owner)
    if name in holder._parameters:
        del holder._parameters[name]
    holder.register_buffer(name, value)
