"""Detect changes of graphs and programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule


class GraphNodes:
    """A snapshot of the nodes of a graph.

    Nodes are compared by the identity of their arguments, which are replaced when a node changes.
    """

    def __init__(self, graph: Graph) -> None:
        self._objects = list(_objects(graph))
        self._targets = [node.target for node in graph.nodes]

    def match(self, graph: Graph, *, ignore_targets: bool = False) -> bool:
        """Whether the graph has exactly these nodes; optionally without comparing their targets."""
        held = list(_objects(graph))
        return (
            len(held) == len(self._objects)
            and all(one is other for one, other in zip(held, self._objects, strict=True))
            and (ignore_targets or self._targets == [node.target for node in graph.nodes])
        )


class ProgramSnapshot:
    """A snapshot of a program; tensors by their version. It does not keep the program alive."""

    def __init__(self, program: ExportedProgram) -> None:
        self._nodes = GraphNodes(program.graph)
        self._state = list(_state(program))

    def matches(self, program: ExportedProgram, *, ignore_targets: bool = False) -> bool:
        """Whether the program is unchanged; optionally without comparing the nodes' targets."""
        nodes = self._nodes.match(program.graph, ignore_targets=ignore_targets)
        return nodes and self._state == list(_state(program))


def view_bytes(tensor: torch.Tensor) -> memoryview | None:
    """The bytes of a tensor's elements, in memory order or row by row.

    None for tensor subclasses, for tensors that are not dense, and for other devices than the CPU.
    """
    is_plain_class = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    is_dense = tensor.layout is torch.strided and not tensor.is_quantized
    if not is_plain_class or not is_dense or tensor.device.type != "cpu":
        return None
    plain = tensor.detach().resolve_conj().resolve_neg()
    if not torch.ops.aten.is_non_overlapping_and_dense(plain):
        plain = plain.contiguous()
    # A view as bytes needs stride 1; a single element may have any stride.
    flat = plain.as_strided((plain.numel(),), (1,))
    data: memoryview = flat.view(torch.uint8).numpy().data
    return data


def _objects(graph: Graph) -> Iterator[Any]:
    for node in graph.nodes:
        yield node
        yield node.args
        yield node.kwargs
        yield node.meta.get("val")


def _state(program: ExportedProgram) -> Iterator[tuple[str, int, int]]:
    for name, value in (*program.state_dict.items(), *program.constants.items()):
        yield name, id(value), value._version if isinstance(value, torch.Tensor) else 0


def is_plain(program: ExportedProgram) -> bool:
    """Whether a program has one graph and static shapes.

    Symbols belong to an environment that records guards on them, so they cannot be reused.
    """
    if any(isinstance(child, GraphModule) for child in program.graph_module.children()):
        return False
    return all(
        type(size) is int
        for node in program.graph.nodes
        for value in _values(node.meta.get("val"))
        for size in (value.shape if isinstance(value, torch.Tensor) else (value,))
    )


def _values(value: Any) -> tuple[Any, ...]:
    """Tensors and symbolic numbers in a node's value."""
    if isinstance(value, (tuple, list)):
        return tuple(one for part in value for one in _values(part))
    if isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)):
        return (value,)
    return ()
