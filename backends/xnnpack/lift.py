"""Numbers that tensors are multiplied by, as constants of the program, so that XNNPACK takes them.

XNNPACK's partitioner has a configuration for ``mul.Tensor`` and none for ``mul.Scalar``, which
decomposed attention has two of (executorch #20515). The constant is an input of the program with a
place in its signature: it survives in a delegate and on portable kernels alike.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from executorch.backends.transforms.utils import create_constant_placeholder
from executorch.backends.xnnpack.partition.graphs import sdpa
from executorch.exir.pass_base import ExportedProgramPassBase, ExportedProgramPassResult
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Graph, Node
from torch.fx.passes.utils.matcher_utils import SubgraphMatcher

from harness.vendors.executorch import ops

_SCALED, _PRODUCT = ops.edge.aten.mul.Scalar, ops.edge.aten.mul.Tensor

# What may stand between a scale and the product it belongs to: where values lie, and as what.
_MOVES = frozenset({
    "alias_copy", "clone", "detach_copy", "expand_copy", "permute_copy", "squeeze_copy",
    "transpose_copy", "unsqueeze_copy", "view_copy", "_clone_dim_order", "_to_copy",
    "_to_dim_order_copy",
})  # fmt: skip


class LiftConstantScalars(ExportedProgramPassBase):  # type: ignore[misc]  # exir is untyped here
    """``mul.Scalar`` of a Python number becomes ``mul.Tensor`` of a constant; equal ones share it.

    Left as they are: numbers that are sizes; what would become of another dtype or shape as a
    product of tensors; numbers that the dtype cannot hold; the scales of an attention that
    XNNPACK's own patterns recognize; and nodes inside of control flow, whose graphs have no
    signature to put a constant in.
    """

    def call(self, exported_program: ExportedProgram) -> ExportedProgramPassResult:
        """Rewrite the program in place."""
        graph = exported_program.graph
        found = [node for node in graph.nodes if node.target is _SCALED]
        kept = scales_of_attention(graph) if found else set()
        modified = False
        for node in found:
            if node in kept or (value := _constant(node)) is None:
                continue
            first = next(each for each in graph.nodes if each.op == "placeholder")
            with graph.inserting_before(first):
                constant = create_constant_placeholder(
                    exported_program, graph, _name_of(value), InputKind.CONSTANT_TENSOR, value
                )
            node.target = _PRODUCT
            node.args = (node.args[0], constant)
            modified = True
        if modified:
            graph.lint()
            exported_program.graph_module.recompile()
        return ExportedProgramPassResult(exported_program, modified)


def scales_of_attention(graph: Graph) -> set[Node]:
    """The nodes that scale queries and keys of an attention which XNNPACK can fuse.

    Its patterns are matched with whatever only moves or casts values left out on both sides.
    """
    plain, origins = _without_moves(graph)
    found: set[Node] = set()
    for pattern, ranks in _patterns():
        matcher = SubgraphMatcher(pattern, ignore_literals=True)
        for match in matcher.match(plain):
            taken = {its: origins[node] for its, node in match.nodes_map.items() if node in origins}
            if all(_rank(taken[its]) == rank for its, rank in ranks.items() if its in taken):
                found.update(node for node in taken.values() if node.target is _SCALED)
    return found


@functools.cache
def _patterns() -> list[tuple[Graph, dict[Node, int]]]:
    """XNNPACK's patterns without moves; how many dimensions it wants its inputs to have."""
    patterns = []
    for module in sdpa.get_graphs():
        plain, origins = _without_moves(module.graph)
        ranks = {node: _rank(origins[node]) for node in plain.nodes if node.op == "placeholder"}
        patterns.append((plain, ranks))
    return patterns


def _without_moves(graph: Graph) -> tuple[Graph, dict[Node, Node]]:
    """A copy in which values are used as they were before they were moved or cast, and the node
    that each of its nodes is a copy of."""
    plain, copies, origins = Graph(), dict[Node, Node](), dict[Node, Node]()
    for node in graph.nodes:
        if _name(node) in _MOVES and isinstance(node.args[0], Node):
            copies[node] = copies[node.args[0]]
            continue
        copies[node] = plain.node_copy(node, copies.__getitem__)
        origins[copies[node]] = node
    return plain, origins


def _constant(node: Node) -> torch.Tensor | None:
    """The number that a node multiplies by, as a tensor that gives the same result; None where
    there is none."""
    given, scalar = node.args[:2]
    result = node.meta.get("val")
    if type(scalar) not in (bool, int, float) or not isinstance(result, torch.Tensor):
        return None
    try:
        constant = torch.tensor(scalar, dtype=result.dtype)
    except (RuntimeError, OverflowError):  # what a kernel refuses, too
        return None
    # Kernels take a number as it is, in float32 at least: one that a coarser dtype rounds, or that
    # wraps around, would be another. (The edge verifier refuses constants of another dtype.)
    is_fine = result.is_floating_point() and result.dtype.itemsize >= 4
    if not is_fine and constant.item() != scalar:
        return None
    assert isinstance(given, Node)
    value = given.meta["val"]
    made = torch.empty((1,) * value.dim(), dtype=value.dtype) * constant
    return constant if made.dtype == result.dtype else None


def _name_of(constant: torch.Tensor) -> str:
    """The name of an input; other constants have other names."""
    dtype = str(constant.dtype).removeprefix("torch.")
    number = repr(constant.item()).translate({ord("-"): "m", ord("+"): "p", ord("."): "d"})
    return f"_lifted_scalar_{dtype}_{number}"


def _name(node: Node) -> str:
    schema = getattr(node.target, "_schema", None)
    return "" if schema is None else str(schema.name).partition("::")[2]


def _rank(node: Node) -> int:
    value: Any = node.meta["val"]
    return int(value.dim())
