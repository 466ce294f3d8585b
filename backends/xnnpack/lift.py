"""A graph pass that turns Python numbers into constant tensors, so that XNNPACK delegates ``mul``.

XNNPACK's partitioner has a configuration for ``mul.Tensor`` and none for ``mul.Scalar``, which
occurs twice in decomposed attention (executorch #20515). Each constant becomes an input in the
program's signature, so it works in a delegate and on portable kernels alike.
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

_SCALAR_PRODUCT, _TENSOR_PRODUCT = ops.edge.aten.mul.Scalar, ops.edge.aten.mul.Tensor

# Operators allowed between a scale and its product: they only move or cast values.
_MOVES = frozenset({
    "alias_copy", "clone", "detach_copy", "expand_copy", "permute_copy", "squeeze_copy",
    "transpose_copy", "unsqueeze_copy", "view_copy", "_clone_dim_order", "_to_copy",
    "_to_dim_order_copy",
})  # fmt: skip


class LiftConstantScalars(ExportedProgramPassBase):  # type: ignore[misc]  # exir is untyped here
    """Replaces ``mul.Scalar`` of a number by ``mul.Tensor`` of a constant; equal numbers share one.

    The pass does not change:

    - products with symbolic sizes;
    - products whose dtype or shape would change;
    - numbers that the dtype cannot represent;
    - scales of an attention that XNNPACK's own patterns recognize;
    - nodes inside control flow: their graphs have no signature for a constant.
    """

    def call(self, exported_program: ExportedProgram) -> ExportedProgramPassResult:
        """Rewrite the program in place."""
        graph = exported_program.graph
        found = [node for node in graph.nodes if node.target is _SCALAR_PRODUCT]
        excluded = find_attention_scales(graph) if found else set()
        modified = False
        for node in found:
            if node in excluded or (value := _make_constant(node)) is None:
                continue
            first = next(each for each in graph.nodes if each.op == "placeholder")
            with graph.inserting_before(first):
                constant = create_constant_placeholder(
                    exported_program, graph, _constant_name(value), InputKind.CONSTANT_TENSOR, value
                )
            node.target = _TENSOR_PRODUCT
            node.args = (node.args[0], constant)
            modified = True
        if modified:
            graph.lint()
            exported_program.graph_module.recompile()
        return ExportedProgramPassResult(exported_program, modified)


def find_attention_scales(graph: Graph) -> set[Node]:
    """Find the nodes that scale queries and keys of an attention that XNNPACK can fuse.

    Pattern and graph are compared without the operators that only move or cast values.
    """
    plain, originals = _copy_without_moves(graph)
    found: set[Node] = set()
    for pattern, ranks in _patterns():
        matcher = SubgraphMatcher(pattern, ignore_literals=True)
        for match in matcher.match(plain):
            matched = {
                its: originals[node] for its, node in match.nodes_map.items() if node in originals
            }
            if all(_rank(matched[its]) == rank for its, rank in ranks.items() if its in matched):
                found.update(node for node in matched.values() if node.target is _SCALAR_PRODUCT)
    return found


@functools.cache
def _patterns() -> list[tuple[Graph, dict[Node, int]]]:
    """Return XNNPACK's patterns without moves, with the rank that each requires of its inputs."""
    patterns = []
    for module in sdpa.get_graphs():
        plain, originals = _copy_without_moves(module.graph)
        ranks = {node: _rank(originals[node]) for node in plain.nodes if node.op == "placeholder"}
        patterns.append((plain, ranks))
    return patterns


def _copy_without_moves(graph: Graph) -> tuple[Graph, dict[Node, Node]]:
    """Copy a graph without the operators that only move or cast values.

    Returns:
        The copy, and the original node of each of its nodes.
    """
    plain, copies, originals = Graph(), dict[Node, Node](), dict[Node, Node]()
    for node in graph.nodes:
        if _operator_name(node) in _MOVES and isinstance(node.args[0], Node):
            copies[node] = copies[node.args[0]]
            continue
        copies[node] = plain.node_copy(node, copies.__getitem__)
        originals[copies[node]] = node
    return plain, originals


def _make_constant(node: Node) -> torch.Tensor | None:
    """Convert the number of a ``mul.Scalar`` to a tensor that gives the same result, or None."""
    factor, scalar = node.args[:2]
    result = node.meta.get("val")
    if type(scalar) not in (bool, int, float) or not isinstance(result, torch.Tensor):
        return None
    try:
        constant = torch.tensor(scalar, dtype=result.dtype)
    except (RuntimeError, OverflowError):  # kernels reject such a number, too
        return None
    # Kernels use a number in float32 or wider. A coarser dtype would round it or wrap it around,
    # and the edge verifier rejects a constant of another dtype.
    is_fine = result.is_floating_point() and result.dtype.itemsize >= 4
    if not is_fine and constant.item() != scalar:
        return None
    assert isinstance(factor, Node)
    value = factor.meta["val"]
    product = torch.empty((1,) * value.dim(), dtype=value.dtype) * constant
    return constant if product.dtype == result.dtype else None


def _constant_name(constant: torch.Tensor) -> str:
    """Name the input of a constant; different constants get different names."""
    dtype = str(constant.dtype).removeprefix("torch.")
    number = repr(constant.item()).translate({ord("-"): "m", ord("+"): "p", ord("."): "d"})
    return f"_lifted_scalar_{dtype}_{number}"


def _operator_name(node: Node) -> str:
    schema = getattr(node.target, "_schema", None)
    return "" if schema is None else str(schema.name).partition("::")[2]


def _rank(node: Node) -> int:
    value: Any = node.meta["val"]
    return int(value.dim())
