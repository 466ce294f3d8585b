"""Writes in place that the nodes of a quantizer separate from the tensor that is written.

An observer returns its input: who writes to the result, or to a view of it, changes the tensor for
everybody who reads it. The quantize and dequantize nodes that take the observer's place return a
new tensor, to each reader another one (``DuplicateDQPass``), so that such a write is lost. A
prepared graph with rounding at its observers loses most of these writes as well: copies without
rounding show them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection

import torch
from torch.fx import GraphModule, Node

from harness.pipeline.quantization.observed_graph import Place, describe_node, list_writers
from harness.pipeline.quantization.quantizer_runs import QuantizerRuns

_MOST_TRIED = 64
"""Places that are tried one by one, each in a run of the model."""


def find_lost_write(runs: QuantizerRuns, differs: Callable[[GraphModule], bool]) -> str | None:
    """Return a write that is lost where tensors are quantized; None if all are kept.

    Args:
        runs: runs of the prepared graph.
        differs: whether a graph that computes in float differs from the float model. Observers of
            nested graphs must return their input while it runs.
    """
    writers = list_writers(runs.prepared)
    if not writers:
        return None
    places = [place for place in runs.list_rounded() if place.graph is runs.prepared]
    if not differs(_copy_at(runs, places)):
        return None
    # Weights are copied as well, and seldom written.
    places.sort(key=lambda place: place.source.op == "get_attr")
    for place in places[:_MOST_TRIED]:
        if differs(_copy_at(runs, [place])):
            behind = [each for each in writers if place.node in _trace_written(each)]
            return _describe_loss(str(place), (behind or writers)[0])
    return _describe_loss("a tensor", writers[0])


def _copy_at(runs: QuantizerRuns, places: Collection[Place]) -> GraphModule:
    """Return the prepared graph without observers, with a copy for each reader of some places."""
    copied = {place.node for place in places}
    observed = {place.node for place in runs.places}
    graph = copy.deepcopy(runs.prepared.graph)
    for old, new in zip(runs.prepared.graph.nodes, list(graph.nodes), strict=True):
        if old not in observed:
            continue
        source = new.args[0]
        assert isinstance(source, Node)
        for reader in list(new.users) if old in copied else []:
            with graph.inserting_after(new):
                reader.replace_input_with(new, graph.call_function(_copy, (source,)))
        new.replace_all_uses_with(source)
        graph.erase_node(new)
    return GraphModule(runs.prepared, graph)


def _copy(value: torch.Tensor) -> torch.Tensor:
    return value.clone() if value.is_floating_point() else value


def _describe_loss(copied: str, writer: Node) -> str:
    return f"quantization copies {copied}, and loses the write of {describe_node(writer)}"


def _trace_written(writer: Node) -> set[Node]:
    """The tensor that an operator writes to, and what it is a view of, observers included."""
    found, node = set(), writer.args[0] if writer.args else None
    while isinstance(node, Node):
        found.add(node)
        node = node.args[0] if node.args else None
    return found
