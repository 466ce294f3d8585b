"""Writes in place that the nodes of a quantizer separate from the tensor that is written.

An observer returns its input: who writes to the result, or to a view of it, changes the tensor for
everybody who reads it. The quantize and dequantize nodes that take the observer's place return a
new tensor, so that such a write is lost. A prepared graph with rounding at its observers loses the
same writes: only copies without rounding show the difference.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import torch
from torch.fx import Node

from harness.pipeline.quantization.observed_graph import (
    Place,
    describe_node,
    list_writers,
    replace_observers,
)
from harness.pipeline.quantization.quantizer_runs import QuantizerRuns

_MOST_TRIED = 64
"""Places that are tried one by one, each in a run of the model."""

Differs = Callable[[Callable[[], AbstractContextManager[None]]], bool]
"""Whether the prepared graph differs from the float model where it runs within a context."""


def find_lost_write(runs: QuantizerRuns, differs: Differs) -> str | None:
    """Return a write that is lost where tensors are quantized; None if all are kept.

    Args:
        runs: runs of the prepared graph.
        differs: compares the prepared graph with the float model.
    """
    writers = list_writers(runs.prepared)
    if not writers:
        return None

    def is_lost(copied: Sequence[Place]) -> bool:
        def copy(place: Place, value: torch.Tensor) -> torch.Tensor:
            return value.clone() if place in copied and runs.find_grid(place, value) else value

        return differs(functools.partial(replace_observers, runs.places, copy))

    places = runs.list_rounded()
    if not is_lost(places):
        return None
    # Weights are copied as well, and seldom written.
    places.sort(key=lambda place: place.source.op == "get_attr")
    for place in places[:_MOST_TRIED]:
        if is_lost([place]):
            behind = [each for each in writers if place.node in _trace_written(each)]
            return _describe_loss(str(place), (behind or writers)[0])
    return _describe_loss("a tensor", writers[0])


def _describe_loss(copied: str, writer: Node) -> str:
    return f"quantization copies {copied}, and loses the write of {describe_node(writer)}"


def _trace_written(writer: Node) -> set[Node]:
    """The tensor that an operator writes to, and what it is a view of, observers included."""
    found, node = set(), writer.args[0] if writer.args else None
    while isinstance(node, Node):
        found.add(node)
        node = node.args[0] if node.args else None
    return found
