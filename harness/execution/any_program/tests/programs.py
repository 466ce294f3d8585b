"""Programs that tests run as programs from another source."""

from __future__ import annotations

import functools
from typing import Any

import torch
from executorch.exir import EdgeCompileConfig, to_edge, to_edge_transform_and_lower

from harness import Case, Tester
from harness.model import registry
from harness.pipeline.route import lower

CHAIN = Case("test/chain", lambda: (Chain(), (torch.randn(3, 8),)))


class Chain(torch.nn.Module):
    """A product, which every delegate has, and state."""

    state: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)
        self.register_buffer("state", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.state.add_(self.linear(x).mean(0))
        return torch.sin(self.linear(x)) + self.state


class Alternating(torch.nn.Module):
    """Products with other operators after each."""

    state: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)
        self.register_buffer("state", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(self.second(torch.cumsum(self.first(x), -1)))
        self.state.add_(y.mean(0))
        return y + self.state


class Nested(torch.nn.Module):
    """Takes and returns dicts, lists and numbers."""

    def forward(self, x: torch.Tensor, flag: bool, *, mask: Any) -> Any:
        return {"sum": x + mask["m"], "more": [x * 2 if flag else x, 3]}


@functools.cache
def emitted(target: str) -> bytes:
    """The chain, lowered to a target."""
    tester = Tester(CHAIN, target)
    lower(tester)
    return tester.program


@functools.cache
def nested() -> bytes:
    """The nested program as method ``nested``, beside a method that returns a constant."""
    exported = torch.export.export(
        Nested(), (torch.randn(3, 8), True), {"mask": {"m": torch.ones(8)}}
    )
    edge = to_edge({"nested": exported}, constant_methods={"get_max": 7})
    return bytes(edge.to_executorch().buffer)


@functools.cache
def mixed() -> tuple[bytes, torch.nn.Module]:
    """A program of XNNPACK's and MLX's delegates in turn, its rows dynamic, and its module."""
    from executorch.backends.xnnpack.partition.config.gemm_configs import AddmmConfig, LinearConfig
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    torch.manual_seed(0)
    module = Alternating().eval()
    rows = {0: torch.export.Dim("rows", min=2, max=6)}
    exported = torch.export.export(module, (torch.randn(3, 8),), dynamic_shapes=(rows,))
    products = XnnpackPartitioner(configs=[LinearConfig, AddmmConfig])
    rest = registry.backend("mlx").recipes["fp32"].partitioners()
    config = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)
    edge = to_edge_transform_and_lower(
        exported, partitioner=[products, *rest], compile_config=config
    )
    return bytes(edge.to_executorch().buffer), module
