"""Programs for the tests of what is traced once, and what tells one from another."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.fx.node import map_arg

from harness import Case


class Net(torch.nn.Module):
    """Layers, views, numbers beside tensors, two dtypes, an argument named like a function."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.linear = torch.nn.Linear(6, 5)

    def forward(self, input: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.nn.functional.gelu(self.linear(torch.relu(self.conv(input))))
        halves = (y * 2).split(2, dim=1)
        return halves[0].transpose(1, 2).mean(-1), (halves[1] > 0.5) + y[:, 2:].amax(0)


NET = Case("test/net", lambda: (Net(), (torch.randn(2, 3, 8, 8),)))


def drawn(module: GraphModule) -> list[Any]:
    """A graph without its names: what is called with what, and what comes of it."""
    place = {node: index for index, node in enumerate(module.graph.nodes)}
    return [
        (node.op, str(node.target) if node.op == "call_function" else "",
         str(map_arg((node.args, node.kwargs), place.__getitem__)), _kind(node.meta.get("val")))
        for node in module.graph.nodes
    ]  # fmt: skip


def _names(program: ExportedProgram) -> list[str]:
    return [node.name for node in program.graph.nodes]


def _kind(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_kind(one) for one in value]
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), value.stride(), value.storage_offset()
    return repr(value)


def are_alike(one: ExportedProgram, other: ExportedProgram) -> None:
    assert drawn(one.graph_module) == drawn(other.graph_module)
    assert _names(one) == _names(other)
    assert one.graph_signature == other.graph_signature
