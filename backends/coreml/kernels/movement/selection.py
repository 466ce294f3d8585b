"""Sorting, sums along an axis, non-zero elements, choice by a condition, suppression of boxes.

Definitions: docstrings in coremltools ``mil/ops/defs/iOS15/tensor_operation.py``, its iOS 16 and 17
versions, and ``iOS15/control_flow.py``; what non-maximum suppression returns without a surviving
box is in ``NonMaximumSuppressionLayerParams`` of NeuralNetwork.proto. Sorts are stable.
"""

from __future__ import annotations

import torch

from backends.coreml.kernels.base import (
    Scalar,
    check_allocation,
    check_broadcast,
    move_elements,
    normalize_axis,
    register_kernel,
    to_dtype,
    to_int,
    to_number,
    to_tensor,
)
from backends.coreml.kernels.elementwise_binary import promote_pair
from harness import ProgramError

_Number = torch.Tensor | Scalar


def _make_sortable(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.int32) if x.dtype == torch.uint16 else x


@register_kernel("argsort")
def argsort(x: torch.Tensor, axis: _Number = -1, ascending: bool = False) -> torch.Tensor:
    """Return the indices that sort along an axis, by default in descending order, as int32."""
    number = normalize_axis(axis, x.dim())
    order = torch.argsort(x, dim=number, descending=not ascending, stable=True)
    return order.to(torch.int32)


@register_kernel("topk")
def topk(
    x: torch.Tensor,
    k: _Number = 1,
    axis: _Number = -1,
    ascending: bool = False,
    sort: bool = True,
    return_indices: bool = True,
    output_indices_dtype: str = "int32",
) -> list[torch.Tensor]:
    """Return the ``k`` largest (``ascending``: smallest) elements and their indices.

    Elements are sorted with or without ``sort``; ``k = -1`` takes all.
    """
    number, count = normalize_axis(axis, x.dim()), to_int(k)
    length = x.shape[number]
    if count == -1:
        count = length
    if not 0 <= count <= length:
        raise ProgramError(f"k = {count} for an axis of size {length}")
    values, order = torch.sort(_make_sortable(x), dim=number, descending=not ascending, stable=True)
    kept = values.narrow(number, 0, count).to(x.dtype)
    if not return_indices:
        return [kept]
    return [kept, order.narrow(number, 0, count).to(to_dtype(output_indices_dtype))]


@register_kernel("cumsum")
def cumsum(
    x: torch.Tensor, axis: _Number = 0, exclusive: bool = False, reverse: bool = False
) -> torch.Tensor:
    """Return the running sum; exclusive: without the element itself; reverse: from the end."""
    number = normalize_axis(axis, x.dim())
    ordered = x.flip(number) if reverse else x
    total = torch.cumsum(ordered, number, dtype=x.dtype)
    if exclusive and x.shape[number]:
        first = torch.zeros_like(total.narrow(number, 0, 1))
        total = torch.cat([first, total.narrow(number, 0, x.shape[number] - 1)], number)
    return total.flip(number) if reverse else total


@register_kernel("non_zero")
def non_zero(x: torch.Tensor | Scalar) -> torch.Tensor:
    """Return the indices of elements other than zero, a row each, as int32."""
    return torch.nonzero(to_tensor(x)).to(torch.int32)


@register_kernel("select")
def select(
    cond: torch.Tensor | Scalar, a: _Number | None = None, b: _Number | None = None
) -> torch.Tensor:
    """Choose ``a`` where the condition holds, else ``b``; without both, return its indices."""
    condition = to_tensor(cond)
    if condition.dtype != torch.bool:
        raise ProgramError(f"a condition of {condition.dtype}")
    if a is None and b is None:
        return non_zero(condition)
    if a is None or b is None:
        raise ProgramError("select needs both a and b")
    first, second = promote_pair(a, b)
    check_broadcast(first, second, condition)
    return move_elements(_choose, first, second, condition=condition)


def _choose(a: torch.Tensor, b: torch.Tensor, *, condition: torch.Tensor) -> torch.Tensor:
    return torch.where(condition, a, b)


@register_kernel("non_maximum_suppression")
def non_maximum_suppression(
    boxes: torch.Tensor,
    scores: torch.Tensor,
    iou_threshold: _Number,
    max_boxes: _Number,
    score_threshold: _Number | None = None,
    per_class_suppression: bool = False,
) -> list[torch.Tensor]:
    """Select boxes by score and drop boxes that overlap a selected one.

    Args:
        boxes: [n, B, 4] as center x, center y, width, height; iOS 17: [n, 4, B].
        scores: [n, B, K]; iOS 17: [n, K, B]. A box counts with its best class.
        iou_threshold: boxes that overlap more are dropped.
        max_boxes: number of rows of the results.
        score_threshold: boxes with a lower score are dropped; without it, the rules of iOS 17.
        per_class_suppression: whether only boxes of the same best class are dropped.

    Returns:
        Boxes, scores, indices, and before iOS 17 the number of boxes. Rows without a box are 0,
        their indices -1.
    """
    is_new = score_threshold is None
    if is_new:
        boxes, scores = boxes.mT, scores.mT
    batch, count, width = boxes.shape
    limit = to_int(max_boxes)
    if width != 4 or scores.shape[:2] != (batch, count) or limit < 0:
        raise ProgramError(f"boxes {list(boxes.shape)}, scores {list(scores.shape)}, {limit} rows")
    check_allocation([batch, limit, scores.shape[2] + 4], scores.dtype)
    rows = torch.full([batch, limit], -1, dtype=torch.int64)
    least = -float("inf") if score_threshold is None else float(to_number(score_threshold))
    for number in range(batch):
        best, classes = scores[number].max(-1)
        kept = _suppress(
            boxes[number].to(torch.float32),
            best,
            classes if per_class_suppression else torch.zeros_like(classes),
            float(to_number(iou_threshold)),
            least,
        )[:limit]
        rows[number, : len(kept)] = torch.tensor(kept, dtype=torch.int64)
    chosen, found = rows.clamp(min=0).unsqueeze(-1), (rows >= 0).unsqueeze(-1)
    results = [
        torch.where(found, torch.gather(x, 1, chosen.expand(-1, -1, x.shape[2])), 0.0).to(x.dtype)
        for x in (boxes, scores)
    ]
    if is_new:
        results = [result.mT for result in results]
    results.append(rows.to(torch.int32))
    return results if is_new else [*results, (rows >= 0).sum(-1).to(torch.int32)]


def _suppress(
    boxes: torch.Tensor,
    scores: torch.Tensor,
    classes: torch.Tensor,
    most_overlap: float,
    least_score: float,
) -> list[int]:
    """Return the selected boxes in descending order of score; the best one if none survives."""
    half = boxes[:, 2:] / 2
    low, high = boxes[:, :2] - half, boxes[:, :2] + half
    area = boxes[:, 2] * boxes[:, 3]
    order = torch.argsort(scores, descending=True, stable=True)
    alive = scores >= least_score
    kept: list[int] = []
    for place in order.tolist():
        if not alive[place]:
            continue
        kept.append(place)
        sides = torch.minimum(high, high[place]) - torch.maximum(low, low[place])
        shared = sides.clamp(min=0).prod(-1)
        overlap = shared / (area + area[place] - shared)
        alive &= ~((overlap > most_overlap) & (classes == classes[place]))
    return kept or order[:1].tolist()
