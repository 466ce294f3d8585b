"""Modules whose programs have several delegates.

On a target with two backends, the first takes what it can and the second takes of the rest what it
can. XNNPACK has no ``erf`` and no ``flip``, which the others take: each divides its programs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase

import torch
from torch import nn

from harness import Case
from suites.build import nn_case, randn

PAIRS = (
    "mlx:fp32/xnnpack:fp32",
    "xnnpack:fp32/mlx:fp32",
    "metal:fp32/xnnpack:fp32",
    "xnnpack:fp32/metal:fp32",
    "tosa:fp/xnnpack:fp32",
    "xnnpack:fp32/tosa:fp",
    "mlx:fp32/metal:fp32",
    "mlx:fp32/tosa:fp",
    "xnnpack:int8/mlx:fp32",
    "xnnpack:int8_dynamic/tosa:fp",
)
SINGLE = ("xnnpack:fp32", "tosa:fp", "mlx:fp32", "metal:fp32")
PLAIN = ("mlx:fp32/xnnpack:fp32", "xnnpack:fp32/tosa:fp", "xnnpack:int8/mlx:fp32", "xnnpack:fp32")


class Between(nn.Module):
    """Two linear layers with an operator between that XNNPACK leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x).erf())


class Chain(nn.Module):
    """Layers of different sizes, so that no two delegates of a backend are alike."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(16, 24), nn.Linear(24, 8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.second(self.first(x).erf()).erf())


class Interleaved(nn.Module):
    """Two chains that need each other in turn.

    Merging all nodes of one kind into one delegate makes a cycle: the linear layers feed the
    sums, and those feed the next linear layers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        side = x
        for layer in self.layers:
            main = torch.relu(layer(x + side))
            side = torch.exp(main.erf())
            x = x + main
        return x * side


class Diamond(nn.Module):
    """One value with two readers in different delegates whose results join."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shared = torch.sigmoid(x)
        left = self.left(shared)
        right = self.right(shared.erf())
        return left + right, shared * left


class SharedWeight(nn.Module):
    """Two delegates that read the same constants."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)
        self.register_buffer("scale", torch.linspace(0.5, 2, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.layer(x) * self.scale
        return self.layer(first.erf()) * self.scale


class CastWeight(nn.Module):
    """A weight that a delegate reads, and a cast, whose arguments are keywords."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)
        nn.init.normal_(self.layer.weight, std=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.layer.weight
        return self.layer(x) + (weight.to(torch.int32) * 2 + weight).mean(1)


class Branches(nn.Module):
    """Delegates inside both branches of a condition, and behind it.

    Args:
        layers: compute the branches with linear layers, else elementwise.
    """

    def __init__(self, layers: bool) -> None:
        super().__init__()
        self.positive = nn.Linear(16, 16) if layers else nn.ReLU6()
        self.negative = nn.Linear(16, 16) if layers else nn.Sigmoid()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def positive(x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.positive(x) + x)

        def negative(x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.negative(x) - x)

        return torch.cond(x.sum() > 0, positive, negative, (x,)) * 2 + x


class State(nn.Module):
    """A buffer that is written between two delegates, in every call."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("total", torch.zeros(4, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        self.total.add_(y)
        return self.layer(self.total.erf())


class Convolutional(nn.Module):
    """Convolution, normalization and pooling, with a flip in between."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3, groups=4)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.first(x)))
        return self.last(y.flip(-1)).mean((2, 3))


def _case(
    name: str,
    make: Callable[[], nn.Module],
    *shape: int,
    calls: int = 0,
    without: str = "",
    further: str = "",
) -> Case:
    """Make a case.

    Args:
        name: its name.
        make: makes the module.
        shape: the shape of its input.
        calls: number of further calls.
        without: glob over the targets that it does not suit.
        further: one more target of a plain run.
    """
    case = nn_case(f"delegates/{name}", make, randn(*shape),
                   calls=[[randn(*shape)] for _ in range(calls)])  # fmt: skip
    targets = [text for text in (*SINGLE, *PAIRS) if not fnmatchcase(text, without)]
    plain = [text for text in targets if text in (*PLAIN, further)]
    return replace(
        case,
        tags=case.tags | {"delegates"},
        targets="|".join(targets),
        plain_targets="|".join(plain),
    )


CASES = [
    # Metal's partitioner takes every node that is no delegate yet.
    _case("between", Between, 4, 16, further="xnnpack:fp32/metal:fp32"),
    _case("chain", Chain, 4, 16),
    _case("interleaved", Interleaved, 4, 16),
    _case("diamond", Diamond, 4, 16),
    _case("shared_weight", SharedWeight, 4, 16),
    _case("cast_weight", CastWeight, 4, 16),
    _case("branches", lambda: Branches(layers=False), 4, 16, calls=3, without="*int8*"),
    _case("branches_of_layers", lambda: Branches(layers=True), 4, 16, calls=3, without="*int8*"),
    _case("state", State, 4, 8, calls=2),
    # XNNPACK quantizes no convolution dynamically that a relu follows.
    _case("convolutional", Convolutional, 2, 3, 8, 9, without="*int8_dynamic*"),
]
