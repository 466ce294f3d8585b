"""Cases of ``conform run --quick``: every backend and every stage in half a minute.

They cover layers, attention, state, dynamic dimensions, integers and block-scaled weights.
"""

from __future__ import annotations

import torch
from torch.nn import GELU, LayerNorm, Linear, ReLU, Sequential

from harness import Case
from suites.build import nn_case, randn, uniform
from suites.mxfp.build import on


class Attention(torch.nn.Module):
    """Two heads over a sequence of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (Linear(32, 32) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = (project(x).unflatten(-1, (2, 16)) for project in (self.query, self.key, self.value))
        query, key, value = (heads.transpose(1, 2) for heads in made)
        weights = (query @ key.mT / 4).softmax(-1)
        return (weights @ value).transpose(1, 2).flatten(2)


class Running(torch.nn.Module):
    """A running mean, kept in a buffer from call to call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean.mul_(0.75).add_(x.mean(0), alpha=0.25)
        return x - self.mean


def _classifier() -> Sequential:
    return Sequential(Linear(24, 32), LayerNorm(32), GELU(), Linear(32, 5))


_LENGTH = torch.export.Dim("length", min=2, max=16)

CASES: list[Case] = [
    nn_case("quick/classifier", _classifier, randn(6, 24)),
    nn_case("quick/attention", Attention, randn(1, 6, 32), dynamic_shapes=({1: _LENGTH},),
            calls=[[randn(1, 2, 32)], [randn(1, 16, 32)]]),
    nn_case("quick/state", Running, randn(4, 8), calls=[[randn(4, 8)], [randn(4, 8)]]),
    *on(
        "xnnpack:int8|xnnpack:int8_dynamic|tosa:int",
        nn_case("quick/integers", lambda: Sequential(Linear(16, 16), ReLU(), Linear(16, 8)),
                uniform(-2, 2, 4, 16)),
    ),
    *on(
        "tosa:mxfp8_e4m3|tosa:mxfp4|mlx:mxfp8|mlx:int4",
        nn_case("quick/block_scaled", lambda: Linear(64, 32), randn(4, 64)),
    ),
]  # fmt: skip
