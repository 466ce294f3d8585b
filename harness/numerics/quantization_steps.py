"""The quantization steps of a graph: the unit in which an integer recipe errs."""

from __future__ import annotations

from torch.fx import GraphModule, Node

from harness.vendors.torch import tree_leaves


def output_steps(graph: GraphModule) -> list[float | None]:
    """The scale that each output of a quantized graph was encoded with.

    Args:
        graph: what PT2E quantization returns.

    Returns:
        One number an output, in the output's unit; None where the graph does not decode it from
        codes of one scale.
    """
    returned = tree_leaves(graph.graph.output_node().args[0])
    return [_step(leaf) for leaf in returned if isinstance(leaf, Node)]


def _step(node: Node) -> float | None:
    # By name: the operator is registered by what quantizes, and not where nothing does.
    decodes = str(node.target) == "quantized_decomposed.dequantize_per_tensor.default"
    scale = node.args[1] if decodes else None
    return scale if isinstance(scale, float) else None
