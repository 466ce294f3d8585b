"""Find the quantization steps of a graph, and codes that a target may choose differently."""

from __future__ import annotations

from collections.abc import Sequence

import torch
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
    return [_step(leaf) if isinstance(leaf, Node) else None for leaf in returned]


def _step(node: Node) -> float | None:
    # By name: the operator may not be registered, as only quantizers register it.
    decodes = str(node.target) == "quantized_decomposed.dequantize_per_tensor.default"
    scale = node.args[1] if decodes else None
    return scale if isinstance(scale, float) else None


# Roundings of float32 in scale, reciprocal and product, of the graph and of the target.
_ROUNDINGS = 8 * 2.0**-24


def is_scaled_by_row(x: torch.Tensor, block: Sequence[int]) -> bool:
    """Return whether each row has a scale of its own: the block is one row."""
    return tuple(block) == (*[1] * (x.dim() - 1), x.shape[-1])


def find_ties(
    x: torch.Tensor, scale: torch.Tensor, codes: torch.Tensor, limits: tuple[int, int]
) -> torch.Tensor:
    """Find the codes that another order of float32 operations may round to a neighbour.

    Args:
        x: quantized values, shape (..., columns).
        scale: of each row, as many elements as ``x`` has rows.
        codes: of the values, shaped like ``x``.
        limits: the lowest and the highest code.

    Returns:
        A mask shaped like ``x``. Where the zero point of a row is near a tie itself, it includes
        the ends of the range.
    """
    steps = x.double() / scale.double().reshape(*x.shape[:-1], 1)
    lowest = steps.amin(-1, keepdim=True).clamp(max=0)
    at_end = (codes == limits[0]) | (codes == limits[1])
    return _is_near_tie(steps) | (_is_near_tie(lowest) & at_end)


def _is_near_tie(steps: torch.Tensor) -> torch.Tensor:
    distance = (steps - steps.floor() - 0.5).abs()
    return distance <= steps.abs() * _ROUNDINGS
