"""Whether a graph or a program is still what it was, and whether that can be told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule


class Holding(Protocol):
    """What holds a graph and the values of its inputs, as a program does."""

    @property
    def graph(self) -> Graph:
        """Its only one."""

    @property
    def state_dict(self) -> Mapping[str, Any]:
        """Parameters and buffers by name."""

    @property
    def constants(self) -> Mapping[str, Any]:
        """Other values by name."""


class Nodes:
    """The nodes of a graph as they are now.

    They are compared by the very objects they hold, which changing a node replaces.
    """

    def __init__(self, graph: Graph) -> None:
        self._held = list(_held(graph))
        self._targets = [node.target for node in graph.nodes]

    def are_of(self, graph: Graph, *, but_targets: bool = False) -> bool:
        """Whether the graph has just these; what they call may be left out."""
        held = list(_held(graph))
        return (
            len(held) == len(self._held)
            and all(one is other for one, other in zip(held, self._held, strict=True))
            and (but_targets or self._targets == [node.target for node in graph.nodes])
        )


class Snapshot:
    """How a program is now, its tensors by the counter of their writes. It does not keep it."""

    def __init__(self, program: Holding) -> None:
        self._nodes = Nodes(program.graph)
        self._state = list(_state(program))

    def holds(self, program: Holding, *, but_targets: bool = False) -> bool:
        """Whether the program is unchanged; what its nodes call may be left out."""
        nodes = self._nodes.are_of(program.graph, but_targets=but_targets)
        return nodes and self._state == list(_state(program))


def bytes_of(tensor: torch.Tensor) -> memoryview | None:
    """The bytes of a tensor's elements, as they lie in memory or row by row; None for a tensor of
    another class or layout than torch's own dense ones on the CPU."""
    is_plain_class = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    is_dense = tensor.layout is torch.strided and not tensor.is_quantized
    if not is_plain_class or not is_dense or tensor.device.type != "cpu":
        return None
    plain = tensor.detach().resolve_conj().resolve_neg()
    if not torch.ops.aten.is_non_overlapping_and_dense(plain):
        plain = plain.contiguous()
    # A single element is contiguous whatever its stride; a view of bytes wants 1.
    flat = plain.as_strided((plain.numel(),), (1,))
    data: memoryview = flat.view(torch.uint8).numpy().data
    return data


def _held(graph: Graph) -> Iterator[Any]:
    for node in graph.nodes:
        yield node
        yield node.args
        yield node.kwargs
        yield node.meta.get("val")


def _state(program: Holding) -> Iterator[tuple[str, int, int]]:
    for name, value in (*program.state_dict.items(), *program.constants.items()):
        yield name, id(value), value._version if isinstance(value, torch.Tensor) else 0


def is_plain(program: ExportedProgram) -> bool:
    """Whether a program has one graph, and sizes that are numbers.

    Symbols belong to an environment that remembers what was asked of them.
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
    """Tensors and symbolic numbers in what a node returns."""
    if isinstance(value, (tuple, list)):
        return tuple(one for part in value for one in _values(part))
    if isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)):
        return (value,)
    return ()
