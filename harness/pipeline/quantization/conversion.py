"""Check that PT2E's conversion put the rounding of each grid in the place of its observer.

Every value that an operator of the quantized graph gets is compared with what the prepared graph
prescribes for the values of the quantized graph itself: the rounding of its source where there was
an observer, else the source. Rounding errors of operators do not add up in such a comparison, so
that it is exact, and it names the first operator that gets another value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from harness.model.copies import keep_values
from harness.pipeline.quantization.observed_graph import (
    Place,
    Replace,
    describe_node,
    list_writers,
)
from harness.vendors.torch import tree_leaves, tree_map

# Float32 roundings of the same formula; a wrong code is off by a whole step.
_TOLERANCE = 2.0**-20
# Elements that are held to be compared. The outputs alone are compared in a larger graph.
_LARGEST = 2**26


@dataclass(frozen=True)
class Operand:
    """A tensor operand of an operator in a prepared graph.

    Attributes:
        source: name of the node that computes it.
        places: the observers between source and operator, in order.
        constant: its value where it belongs to the module.
    """

    source: str
    places: tuple[Place, ...]
    constant: torch.Tensor | None


@dataclass(frozen=True)
class Operation:
    """A call of an operator, or the output, in a prepared graph.

    Attributes:
        name: name of the node.
        target: what it calls.
        leaves: its arguments, flat: operands, and values that are no nodes.
    """

    name: str
    target: Any
    leaves: tuple[Any, ...]


def list_operations(prepared: GraphModule, places: Sequence[Place]) -> list[Operation]:
    """Return the operations of a prepared graph, without nested graphs; to be called before
    conversion, which changes the graph."""
    at = {place.node: place for place in places}

    def read(leaf: Any) -> Any:
        found: list[Place] = []
        while isinstance(leaf, Node) and leaf in at:
            found.append(at[leaf])
            leaf = at[leaf].source
        if not isinstance(leaf, Node):
            return leaf
        value = attrgetter(str(leaf.target))(prepared) if leaf.op == "get_attr" else None
        constant = value if isinstance(value, torch.Tensor) else None
        return Operand(leaf.name, tuple(reversed(found)), constant)

    return [
        Operation(node.name, node.target, tuple(map(read, _leaves(node))))
        for node in prepared.graph.nodes
        if node.op in ("call_function", "output")
    ]


def find_wrong_conversion(
    graph: GraphModule,
    operations: Sequence[Operation],
    flat_inputs: Sequence[Any],
    rounding: Replace,
) -> str | None:
    """Return which operator of a converted graph gets another value than prescribed, or None.

    Args:
        graph: the quantized graph.
        operations: those of the prepared graph that it was converted from.
        flat_inputs: flat inputs of a call.
        rounding: rounds a value to the grid of a place.

    Raises:
        NotComparable: the quantized graph has other operators than the prepared one, or more values
            than can be held.
    """
    nodes = {node.name: node for node in graph.graph.nodes}
    # The output has a name of its own in each graph.
    nodes["output"] = graph.graph.output_node()
    values = _Values(graph, garbage_collect_values=False)
    copies = tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, list(flat_inputs))
    with keep_values(graph.buffers() if list_writers(graph) else ()):
        values.run(*copies, enable_io_processing=False)

    def prescribe(operand: Operand) -> Any:
        value = values.by_name.get(operand.source, operand.constant)
        if value is None:
            raise NotComparable(operand.source)
        for place in operand.places:
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                value = rounding(place, value)
        return value

    for operation in operations:
        node = nodes.get(operation.name)
        leaves = [] if node is None else _leaves(node)
        if node is None or node.target != operation.target or len(leaves) != len(operation.leaves):
            raise NotComparable(operation.name)
        for given, wanted in zip(leaves, operation.leaves, strict=True):
            if not isinstance(wanted, Operand) or not isinstance(given, Node):
                continue
            problem = _compare(values.by_name[given.name], prescribe(wanted))
            if problem is not None:
                return f"{describe_node(node)} gets a wrong value for {wanted.source}: {problem}"
    return None


class NotComparable(Exception):
    """The operands of a quantized graph cannot be compared with those of the prepared graph."""


class _Values(Interpreter):
    """Runs a graph and keeps the value of every node."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.by_name: dict[str, Any] = {}
        self._elements = 0

    def run_node(self, node: Node) -> Any:
        with torch.no_grad():
            value = super().run_node(node)
        if not isinstance(value, torch.Tensor):
            self.by_name[node.name] = value
            return value
        self._elements += value.numel()
        if self._elements > _LARGEST:
            raise NotComparable(node.name)
        # A later operator may write to it.
        self.by_name[node.name] = value.clone()
        return value


def _leaves(node: Node) -> list[Any]:
    return tree_leaves((node.args, dict(sorted(node.kwargs.items()))))


def _compare(actual: Any, expected: Any) -> str | None:
    if not isinstance(actual, torch.Tensor) or not isinstance(expected, torch.Tensor):
        return None
    if actual.shape != expected.shape:
        return f"shape {tuple(actual.shape)} for {tuple(expected.shape)}"
    if not expected.numel() or torch.equal(actual, expected):
        return None
    off = (actual.double() - expected.double()).abs().nan_to_num()
    size = expected.double().abs().nan_to_num(posinf=0.0)
    wrong = off > _TOLERANCE * size.amax()
    if not bool(wrong.any()):
        return None
    worst = int(off.argmax())
    return (
        f"{int(wrong.sum()):,} of {expected.numel():,} elements differ, one is "
        f"{float(actual.flatten()[worst]):.6g} for {float(expected.flatten()[worst]):.6g}"
    )
