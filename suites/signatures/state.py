"""Modules that write to their buffers, called several times."""

from __future__ import annotations

import torch

from harness import Case
from suites.build import nn_case, randn


class _Running(torch.nn.Module):
    """Adds a running sum of its earlier inputs."""

    def __init__(self, start: float) -> None:
        super().__init__()
        self.seen = torch.nn.Buffer(torch.full((4,), start))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(x.mean(0))
        return x + self.seen


def _case(name: str, start: float) -> Case:
    x = randn(3, 4)
    return nn_case(f"state/{name}", lambda: _Running(start), x, calls=[(x,)] * 2, tags=["stateful"])


CASES: list[Case] = [_case("from_zero", 0.0), _case("from_one", 1.0)]
