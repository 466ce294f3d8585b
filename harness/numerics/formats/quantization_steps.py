"""Find the quantization steps of a graph: the unit in which an integer recipe errs."""

from __future__ import annotations

from torch.fx import GraphModule, Node

from harness.vendors.torch import tree_leaves


def output_steps(graph: GraphModule) -> list[float | None]:
    """Return the scale that each output of a quantized graph was encoded with.

    Args:
        graph: result of PT2E quantization.

    Returns:
        One number per output, in the output's unit; None where the graph does not decode it from
        codes with one scale.
    """
    returned = tree_leaves(graph.graph.output_node().args[0])
    return [_step(leaf) for leaf in returned if isinstance(leaf, Node)]


def _step(node: Node) -> float | None:
    # By name: the operator may not be registered, as only quantizers register it.
    decodes = str(node.target) == "quantized_decomposed.dequantize_per_tensor.default"
    scale = node.args[1] if decodes else None
    return scale if isinstance(scale, float) else None
