"""The pass that is put off does to a program what torch's does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram, export

from harness.pipeline.speed import lazy_imports


class Spare(torch.nn.Module):
    """A copy of a value onto itself, and values that nobody uses."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.state.copy_(self.state)
        torch.exp(x)
        return x + self.state


class Writes(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(x)
        torch.ops.conform_lean.write(x, out)
        return out + 1


@pytest.fixture
def _write() -> Iterator[None]:
    with torch.library._scoped_library("conform_lean", "DEF") as library:
        library.define("write(Tensor x, Tensor(a!) out) -> ()")
        library.impl("write", lambda x, out: out.copy_(x * 2) and None, "CompositeExplicitAutograd")
        library.impl("write", lambda x, out: None, "Meta")
        yield


def _nodes(program: ExportedProgram) -> list[tuple[Any, ...]]:
    return [(node.op, node.name, node.target, str(node.args)) for node in program.graph.nodes]


def _branches() -> torch.nn.Module:
    class Branches(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    return Branches()


@pytest.mark.parametrize("make", [Spare, torch.nn.ReLU, _branches])
def test_it_does_what_torchs_does(make: Any) -> None:
    ours, upstreams = (export(make(), (torch.randn(3),)) for _ in range(2))
    before = len(ours.graph.nodes)
    lazy_imports._remove(ours)
    lazy_imports._real()(upstreams)
    assert _nodes(ours) == _nodes(upstreams)
    assert (len(ours.graph.nodes) < before) is (make is Spare)


@pytest.mark.usefixtures("_write")
def test_a_node_that_it_is_for_is_left_to_torchs() -> None:
    program = export(Writes(), (torch.randn(3),)).run_decompositions({})
    assert any("auto_functionalized" in str(node.target) for node in program.graph.nodes)
    done = lazy_imports._remove(program)
    assert not any("auto_functionalized" in str(node.target) for node in done.graph.nodes)
    assert any("conform_lean" in str(node.target) for node in done.graph.nodes)
