"""Selects the values of a graph that can be measured on a target, and the nodes that compute each.

A value that an integer kernel never stores is not a candidate: of ``convolution, relu, quantize,
dequantize`` only the dequantized value exists. Nodes that dequantize or transpose weights, and
nodes that produce tuples or sizes, belong to the node that uses them.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable

import torch
from torch.fx import Node

from harness.execution.operators import op_name
from harness.numerics.error_model.rules import RoundingKind, base_name, get_rule
from harness.tracing.value_flow import ValueFlow
from harness.vendors.torch import OpOverload

# Integer types that the runtimes can return: indices and masks.
_WHOLE = (torch.int64, torch.int32, torch.bool)


def find_candidates(flow: ValueFlow) -> list[Node]:
    """Return the nodes whose values can be outputs of the program, in graph order."""
    decoded: set[Node] = set()
    found = []
    for node in flow.nodes:
        if (
            not _has_value(flow, node)
            or is_weight_preparation(flow, node)
            or _is_inside_kernel(node)
        ):
            continue
        if is_dequantize(node):
            codes = node.args[0]
            # One of several nodes that dequantize the same value is enough.
            if not isinstance(codes, Node) or codes in decoded or not _is_static(flow, node):
                continue
            decoded.add(codes)
        found.append(node)
    return found


def find_segment(flow: ValueFlow, node: Node, all_candidates: set[Node]) -> list[Node]:
    """Return the nodes that compute a value from other candidates, inputs and state.

    Args:
        flow: the graph.
        node: the candidate.
        all_candidates: all candidates of the graph.
    """

    def stops(source: Node) -> bool:
        return source in all_candidates or source.op != "call_function"

    return [each for each in flow.find_ancestors([node], stops) if each is node or not stops(each)]


def find_weight_preparation(flow: ValueFlow, nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes that prepare the weights of some nodes, in graph order."""
    uses = [source for node in nodes for source in node.all_input_nodes]
    ends = [source for source in uses if is_weight_preparation(flow, source)]
    return [
        node
        for node in flow.find_ancestors(ends, lambda source: source.op != "call_function")
        if node.op == "call_function"
    ]


def is_weight_preparation(flow: ValueFlow, node: Node) -> bool:
    """Whether a node only dequantizes or moves weights, and so do the nodes that it depends on."""
    if node.op != "call_function" or node in flow.input_dependent:
        return False
    sources = flow.sources.get(node, ())
    return (
        (is_dequantize(node) or is_data_movement(node))
        and bool(sources)
        and all(
            source.op == "get_attr" or is_weight_preparation(flow, source) for source in sources
        )
    )


def is_data_movement(node: Node) -> bool:
    """Whether a node only moves, selects or compares values."""
    if not isinstance(node.target, OpOverload):
        return node.target is operator.getitem
    return get_rule(base_name(node.target)).get_kind(node.args, node.kwargs) is RoundingKind.EXACT


def is_dequantize(node: Node) -> bool:
    """Whether a node dequantizes."""
    return _name(node).startswith("dequantize")


def is_quantize(node: Node) -> bool:
    """Whether a node quantizes, or chooses quantization parameters."""
    return _name(node).startswith(("quantize", "choose_qparams"))


def select_operators(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes that stand for operators in a report: no quantize, dequantize or getitem."""
    nodes = list(nodes)
    plain = [
        node
        for node in nodes
        if node.op == "call_function"
        and node.target is not operator.getitem
        and not is_dequantize(node)
        and not is_quantize(node)
    ]
    return plain or [node for node in nodes if node.op == "call_function"]


def describe_operators(nodes: Iterable[Node]) -> str:
    """Return the operators of some nodes, as a report names them."""
    return " + ".join(op_name(node.target) for node in select_operators(nodes))


def _has_value(flow: ValueFlow, node: Node) -> bool:
    seen = flow.observed.get(node)
    if node.op != "call_function" or seen is None or not seen.elements or seen.dtype is None:
        return False
    if is_quantize(node) or _name(node).startswith(("_assert", "sym_")):
        return False
    if seen.dtype.is_floating_point:
        return seen.dtype.itemsize > 1
    return seen.dtype in _WHOLE


def _is_static(flow: ValueFlow, node: Node) -> bool:
    """Whether the scale of a dequantize node is not computed by the program."""
    return not any(source in flow.input_dependent for source in node.all_input_nodes[1:])


def _is_inside_kernel(node: Node) -> bool:
    """Whether a quantized kernel computes a value without storing it.

    This is the case when the value is quantized at once, or after one activation.
    """
    user = _only_user(node)
    if user is None:
        return False
    if is_quantize(user):
        return True
    following = _only_user(user)
    return (
        following is not None
        and is_quantize(following)
        and any(is_dequantize(source) for source in node.all_input_nodes)
    )


def _only_user(node: Node) -> Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _name(node: Node) -> str:
    target = node.target
    return base_name(target) if isinstance(target, OpOverload) else ""
