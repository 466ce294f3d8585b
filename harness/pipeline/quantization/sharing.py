"""Which places of a graph may share a grid: those with the same values, or a part of them."""

from __future__ import annotations

from collections.abc import Sequence

from torch.fx import GraphModule, Node

from harness.numerics.error_model.rules import RoundingKind, base_name, get_rule
from harness.pipeline.quantization.observed_graph import Place
from harness.vendors.torch import HigherOrderOperator

# Operators whose results lie within the range of their arguments, beside views and those whose rule
# is exact: means, interpolation between neighbours, and composites that move.
_WITHIN_RANGE = frozenset(
    "mean avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d "
    "adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d upsample_bilinear2d "
    "upsample_linear1d upsample_trilinear3d upsample_nearest2d upsample_nearest1d "
    "upsample_nearest3d dropout pad pixel_shuffle pixel_unshuffle channel_shuffle tile "
    "repeat_interleave concat concatenate hstack vstack dstack column_stack".split()
)


def group_by_values(prepared: GraphModule) -> dict[Node, int]:
    """Return a group for each node; nodes of a group may share a grid.

    Nodes are of one group where a chain of operators between them moves, selects, joins or averages
    values: the range of one then suits the other. Nodes of nested graphs are in the group of the
    call that runs them, because values enter and leave them unchanged.
    """
    parent: dict[Node, Node] = {}

    def find(node: Node) -> Node:
        while parent.setdefault(node, node) is not node:
            node = parent[node]
        return node

    graphs = [each for each in prepared.modules() if isinstance(each, GraphModule)]
    for graph in graphs:
        for node in graph.graph.nodes:
            if _keeps_range(node):
                for source in node.all_input_nodes:
                    parent[find(source)] = find(node)
    groups = {root: number for number, root in enumerate({find(node) for node in parent})}
    return {node: groups[find(node)] for node in list(parent)}


def _keeps_range(node: Node) -> bool:
    if node.op in ("call_module", "output"):
        return node.op == "call_module"  # an observer
    if node.op != "call_function":
        return False
    if isinstance(node.target, HigherOrderOperator):
        return True
    if getattr(node.target, "_schema", None) is None:
        return True  # getitem
    name = base_name(node.target)
    is_view = any(
        each.alias_info is not None and not each.alias_info.is_write
        for each in node.target._schema.returns  # type: ignore[union-attr]
    )
    is_view = is_view or name.endswith("_copy")
    return is_view or name in _WITHIN_RANGE or get_rule(name).kind is RoundingKind.EXACT


def find_sharers(places: Sequence[Place], groups: dict[Node, int]) -> dict[Place, list[Place]]:
    """Return for each place those that share its observer and may do so, itself included."""
    together: dict[tuple[int, int], list[Place]] = {}
    key = {
        place: (id(place.observer), groups.get(place.source, -1 - number))
        for number, place in enumerate(places)
    }
    for place in places:
        together.setdefault(key[place], []).append(place)
    return {place: together[key[place]] for place in places}
