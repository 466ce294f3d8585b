"""Writes in place that the nodes of a quantizer separate from the tensor that is written.

An observer returns its input: who writes to the result, or to a view of it, changes the tensor for
everybody who reads it. The quantize and dequantize nodes that take the observer's place return a
new tensor, so that such a write is lost. A prepared graph with rounding at its observers loses the
same writes: only copies without rounding show the difference.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch.fx import Node

from harness.model.case import CallInputs
from harness.numerics.module_runs import CallResult, run_calls
from harness.pipeline.quantization.observed_graph import (
    Place,
    describe_node,
    list_writers,
    replace_observers,
)
from harness.pipeline.quantization.quantizer_runs import QuantizerRuns

_MOST_TRIED = 64
"""Places that are tried one by one, each in a run of the model."""


def find_lost_write(
    runs: QuantizerRuns, calls: Sequence[CallInputs], inputs: Collection[int]
) -> str | None:
    """Return a write that is lost where tensors are quantized; None if all are kept.

    Args:
        runs: runs of the prepared graph.
        calls: the calls to compare.
        inputs: positions of the flat inputs that the model changes.
    """
    writers = list(list_writers(runs.prepared))
    if not writers:
        return None
    places = [place for place in runs.list_rounded() if place.source.op != "get_attr"]
    expected = _run_with_copies(runs, calls, inputs, [])
    if _are_equal(_run_with_copies(runs, calls, inputs, places), expected):
        return None
    for place in places[:_MOST_TRIED]:
        if not _are_equal(_run_with_copies(runs, calls, inputs, [place]), expected):
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


def _run_with_copies(
    runs: QuantizerRuns,
    calls: Sequence[CallInputs],
    inputs: Collection[int],
    places: Sequence[Place],
) -> list[CallResult]:
    """Run the float model with a copy at some of the places that quantization rounds."""
    copied = frozenset(places)

    def copy(place: Place, value: torch.Tensor) -> torch.Tensor:
        return value.clone() if place in copied and runs.find_grid(place, value) else value

    with replace_observers(runs.places, copy):
        return run_calls(runs.prepared, calls, runs.seed, inputs)


def _are_equal(first: Sequence[CallResult], second: Sequence[CallResult]) -> bool:
    return all(one.equals(other) for one, other in zip(first, second, strict=True))
