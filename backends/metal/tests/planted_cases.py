"""Small programs of every shape that Inductor's Metal code takes, for planting faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from harness import Case

Tensor = torch.Tensor


class Unary(torch.nn.Module):
    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


class Binary(torch.nn.Module):
    def __init__(self, function: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, y: Tensor) -> Any:
        return self.function(x, y)


def _gated(x: Tensor, y: Tensor) -> Tensor:
    return torch.sigmoid(x) * y - torch.where(x > 0, x, y * 0.5)


def _halves(x: Tensor) -> Tensor:
    left, right = x.chunk(2, 1)
    return (right @ left.T) * 2


def _counted(x: Tensor) -> Tensor:
    return (x.to(torch.int32) * 3).to(torch.float32) / 2 + (x > 0)


def _both(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.amax((1, 2)), x.mean(0)


def _joined(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat([x * 2, y], 1).transpose(0, 1) + 1


def _case(name: str, module: Callable[[], torch.nn.Module], *inputs: Any, **options: Any) -> Case:
    """Inputs are shapes of normal noise, or functions that make one."""

    def build() -> tuple[torch.nn.Module, tuple[Tensor, ...]]:
        return module(), tuple(
            given() if callable(given) else torch.randn(*given) for given in inputs
        )

    return Case(name, build, **options)


def _peaks() -> Tensor:
    """Rows whose largest elements are the first, one in the middle, and the last."""
    x = torch.randn(3, 1320)
    x[0, 0] = x[1, 700] = x[2, -1] = 9.0123
    return x


def _wide() -> Tensor:
    x = torch.randn(40) * 1000
    x[7] = 0.06
    return x


def _norm() -> torch.nn.Module:
    layer = torch.nn.LayerNorm(1030)
    torch.nn.init.normal_(layer.weight)
    torch.nn.init.normal_(layer.bias)
    return layer


_LENGTH = torch.export.Dim("length", min=2, max=2048)

CASES = [
    _case("elementwise", lambda: Binary(_gated), (5, 37), (5, 37)),
    _case("broadcasting", lambda: Binary(lambda x, y: (x - y[:, None]) * 2.5), (4, 6, 7), (4, 7)),
    # Of such a range that a wrong maximum overflows.
    _case("softmax", lambda: torch.nn.Softmax(-1), lambda: _peaks() * 12),
    _case("softmax_in_one_pass", lambda: torch.nn.Softmax(-1), lambda: torch.randn(6, 70) * 30),
    _case("sum", lambda: Unary(lambda x: x.sum(-1)), (3, 2100)),
    _case(
        "sum_of_integers",
        lambda: Unary(lambda x: x.sum(-1)),
        lambda: torch.randint(-9, 9, (2, 1100)),
    ),
    _case("layer_norm", _norm, (2, 1030)),
    _case("argmax", lambda: Unary(lambda x: x.argmax(-1)), _peaks),
    _case("reductions", lambda: Unary(_both), lambda: _peaks().view(3, 40, 33)),
    _case("matmul_of_views", lambda: Unary(_halves), (4, 12)),
    _case("linear", lambda: torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU()), (3, 8)),
    _case("bmm", lambda: Binary(torch.bmm), (2, 4, 4), (2, 4, 4)),
    _case("conv", lambda: torch.nn.Conv1d(3, 4, 3, padding=1), (2, 3, 9)),
    _case("cat", lambda: Binary(_joined), (3, 4), (3, 5)),
    _case("embedding", lambda: torch.nn.Embedding(11, 6), lambda: torch.tensor([[1, 10], [0, 7]])),
    _case("cast", lambda: Unary(_counted), _wide),
    _case(
        "dynamic",
        lambda: torch.nn.Softmax(-1),
        lambda: torch.randn(3, 9) * 50,
        dynamic_shapes=({1: _LENGTH},),
        calls=lambda: [(torch.randn(3, 33) * 30,), (torch.randn(3, 1500) * 20,)],
    ),
    _case(
        "dynamic_elementwise",
        lambda: Binary(lambda x, y: x.transpose(0, 1) * 2 + y),
        (3, 9),
        (3,),
        dynamic_shapes=({1: _LENGTH}, None),
        calls=lambda: [(torch.randn(3, 64), torch.randn(3))],
    ),
]
