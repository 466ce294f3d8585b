"""Read steps and codes of quantizations, and find codes that a target may choose differently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


def get_scales(name: str, args: tuple[Any, ...]) -> torch.Tensor | float | None:
    """Return the scale of each element of a quantization, to be broadcast.

    Args:
        name: base name of the operator.
        args: its arguments.

    Returns:
        None where the scale is chosen at run time.
    """
    if name == "quantize_per_tensor" and isinstance(args[1], float):
        return float(args[1])
    if name != "quantize_per_channel":
        return None
    sizes = [1] * args[0].dim()
    sizes[args[3]] = -1
    scales: torch.Tensor = args[1]
    return scales.double().reshape(sizes)


def get_code_range(name: str, args: tuple[Any, ...]) -> tuple[int, int]:
    """Return the lowest and highest code of a quantization; arguments as for ``get_scales``."""
    if name == "quantize_affine":
        limits = torch.iinfo(args[4])
        low, high = (*args[5:7], None, None)[:2]
        return int(limits.min if low is None else low), int(limits.max if high is None else high)
    at = 4 if "per_channel" in name else 3
    return int(args[at]), int(args[at + 1])


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
