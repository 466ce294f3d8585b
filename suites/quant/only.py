"""What the integer suites share: where their cases run, and how activations are distributed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch

from harness import Case
from suites.build import Input, Shape

TOSA = "tosa:int"
# Sums, products, joins, pools: int8_dynamic leaves them in float, int8_per_tensor does as int8.
WEIGHTLESS = f"xnnpack:int8|{TOSA}"
STATIC = f"xnnpack:int8|xnnpack:int8_per_tensor|{TOSA}"
# Where weights are not the point: int8_per_tensor differs from int8 in their scales only.
WEIGHTS_ASIDE = f"xnnpack:int8|xnnpack:int8_dynamic|{TOSA}"
ALL = f"xnnpack:int8*|{TOSA}"


def on(targets: str, *cases: Case, tags: Iterable[str] = ()) -> list[Case]:
    """The cases, for those integer targets."""
    return [replace(case, targets=targets, tags=case.tags | {"int", *tags}) for case in cases]


def spread(*shape: int, dim: int = 1) -> Input:
    """Normal values whose magnitude grows from 1 to 100 along a dimension: one scale for all
    leaves little of the smallest."""

    def draw(size: Shape) -> torch.Tensor:
        ones = [1] * len(size)
        ones[dim] = -1
        return torch.randn(size) * torch.logspace(0, 2, size[dim]).reshape(ones)

    return Input(shape, draw)


def outlier(*shape: int) -> Input:
    """Normal values and one that is 20 times as large as any."""

    def draw(size: Shape) -> torch.Tensor:
        values = torch.randn(size)
        values.view(-1)[values.numel() // 2] = 60.0
        return values

    return Input(shape, draw)
