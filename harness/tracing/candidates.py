"""Which values of a graph can be looked at on a target, and which nodes make one of them.

A value that an integer kernel never holds is none: of ``convolution, relu, quantize, dequantize``
the decoded value is there, those before are not. Weights that are decoded or turned before use, and
nodes that make tuples or sizes, belong to what uses them.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable

import torch
from torch.fx import Node

from harness.execution.operators import op_name
from harness.numerics.error_model.rounding import RoundingKind, base_name, kind_of
from harness.tracing.value_flow import Flow
from harness.vendors.torch import OpOverload

# What the runtimes return as a value of a program: indices and masks beside floats.
_WHOLE = (torch.int64, torch.int32, torch.bool)


def candidates(flow: Flow) -> list[Node]:
    """The nodes whose values can be outputs of the program, in the order of the graph."""
    decoded: set[Node] = set()
    found = []
    for node in flow.nodes:
        if not _has_value(flow, node) or is_prepared(flow, node) or _is_inside_kernel(node):
            continue
        if decodes(node):
            codes = node.args[0]
            # One of several that decode the same codes is enough.
            if not isinstance(codes, Node) or codes in decoded or not _is_static(flow, node):
                continue
            decoded.add(codes)
        found.append(node)
    return found


def segment(flow: Flow, node: Node, known: set[Node]) -> list[Node]:
    """The nodes that make a value out of other candidates, inputs and state.

    Args:
        flow: the graph.
        node: the candidate.
        known: all candidates.
    """

    def stops(source: Node) -> bool:
        return source in known or source.op != "call_function"

    return [each for each in flow.behind([node], stops) if each is node or not stops(each)]


def prepared(flow: Flow, nodes: Iterable[Node]) -> list[Node]:
    """What makes the weights that some nodes use, in the order of the graph."""
    uses = [source for node in nodes for source in node.all_input_nodes]
    ends = [source for source in uses if is_prepared(flow, source)]
    return [
        node
        for node in flow.behind(ends, lambda source: source.op != "call_function")
        if node.op == "call_function"
    ]


def is_prepared(flow: Flow, node: Node) -> bool:
    """Whether a node only decodes or moves weights, and so does what it is made of."""
    if node.op != "call_function" or node in flow.varying:
        return False
    sources = flow.sources.get(node, ())
    return (
        (decodes(node) or moves(node))
        and bool(sources)
        and all(source.op == "get_attr" or is_prepared(flow, source) for source in sources)
    )


def moves(node: Node) -> bool:
    """Whether a node only moves, selects or compares values."""
    if not isinstance(node.target, OpOverload):
        return node.target is operator.getitem
    return kind_of(base_name(node.target), node.args, node.kwargs) is RoundingKind.EXACT


def decodes(node: Node) -> bool:
    """Whether a node makes numbers of codes."""
    return _name(node).startswith("dequantize")


def encodes(node: Node) -> bool:
    """Whether a node makes codes of numbers, or chooses how."""
    return _name(node).startswith(("quantize", "choose_qparams"))


def computing(nodes: Iterable[Node]) -> list[Node]:
    """Those nodes that stand for the operators in a report: without codes and parts of tuples."""
    nodes = list(nodes)
    plain = [
        node
        for node in nodes
        if node.op == "call_function"
        and node.target is not operator.getitem
        and not decodes(node)
        and not encodes(node)
    ]
    return plain or [node for node in nodes if node.op == "call_function"]


def operators(nodes: Iterable[Node]) -> str:
    """The operators of some nodes, as a report spells them."""
    return " + ".join(op_name(node.target) for node in computing(nodes))


def _has_value(flow: Flow, node: Node) -> bool:
    seen = flow.seen.get(node)
    if node.op != "call_function" or seen is None or not seen.elements or seen.dtype is None:
        return False
    if encodes(node) or _name(node).startswith(("_assert", "sym_")):
        return False
    if seen.dtype.is_floating_point:
        return seen.dtype.itemsize > 1
    return seen.dtype in _WHOLE


def _is_static(flow: Flow, node: Node) -> bool:
    """Whether the scale of a node that decodes is no value of the program."""
    return not any(source in flow.varying for source in node.all_input_nodes[1:])


def _is_inside_kernel(node: Node) -> bool:
    """Whether a quantized kernel computes a value and never holds it: it is encoded at once, or an
    activation is in between."""
    user = _only_user(node)
    if user is None:
        return False
    if encodes(user):
        return True
    following = _only_user(user)
    return (
        following is not None
        and encodes(following)
        and any(decodes(source) for source in node.all_input_nodes)
    )


def _only_user(node: Node) -> Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _name(node: Node) -> str:
    target = node.target
    return base_name(target) if isinstance(target, OpOverload) else ""
