"""Whether a program is still what it was, and whether that can be told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule


class Snapshot:
    """How a program is now. It does not keep the program.

    Nodes are compared by the very objects they hold, which changing a node replaces, and values by
    the counter of their writes: nothing is copied.
    """

    def __init__(self, program: ExportedProgram) -> None:
        self._nodes = list(_nodes(program))
        self._targets = [node.target for node in program.graph.nodes]
        self._state = list(_state(program))

    def holds(self, program: ExportedProgram, *, but_targets: bool = False) -> bool:
        """Whether the program is unchanged; the targets of its nodes may be left out."""
        nodes = list(_nodes(program))
        return (
            len(nodes) == len(self._nodes)
            and all(map(_is_same, nodes, self._nodes))
            and (but_targets or self._targets == [node.target for node in program.graph.nodes])
            and self._state == list(_state(program))
        )


def _is_same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(map(_is, one, other))


def _is(one: Any, other: Any) -> bool:
    return one is other


def _nodes(program: ExportedProgram) -> Iterator[tuple[Any, ...]]:
    for node in program.graph.nodes:
        yield node, node.args, node.kwargs, node.meta.get("val")


def _state(program: ExportedProgram) -> Iterator[tuple[str, int, int]]:
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
