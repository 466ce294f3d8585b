"""Helpers: targets of cases, and layers whose weights are edited before encoding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from harness import Case

ARM = "tosa:mxfp*"
MX = f"{ARM}|mlx:mxfp8"
ALL = f"{MX}|mlx:nvfp4"
# For cases that do not depend on the format of the codes: the narrowest and the most used.
SOME_ARM = "tosa:mxfp4|tosa:mxfp8_e4m3"
SOME = f"{SOME_ARM}|mlx:mxfp8"

Edit = Callable[[torch.Tensor], object]


def on(targets: str, *cases: Case) -> list[Case]:
    """Restrict cases to targets."""
    return [replace(case, targets=targets) for case in cases]


def edited(layer: torch.nn.Module, edit: Edit) -> torch.nn.Module:
    """Edit the weight of a layer in place, and return the layer."""
    weight = layer.weight
    assert isinstance(weight, torch.Tensor)
    with torch.no_grad():
        edit(weight)
    return layer


def ties(weight: torch.Tensor) -> None:
    """Halves of small whole numbers up to 7: between two codes in the coarse formats."""
    weight.copy_((torch.randint(-14, 15, weight.shape)) / 2)
    weight[..., 0] = 7.0


def outlier(weight: torch.Tensor) -> None:
    """One column (input channel) a hundred times the others."""
    weight[:, 5] *= 100


def zero_block(weight: torch.Tensor) -> None:
    """The first block of every row is zero."""
    weight[:, :32] = 0


def scaled(factor: float) -> Edit:
    """Return an edit that multiplies all weights by a factor."""

    def edit(weight: torch.Tensor) -> None:
        weight *= factor

    return edit


def fill(value: float) -> Edit:
    """Return an edit that sets all weights to one value."""

    def edit(weight: torch.Tensor) -> None:
        weight.fill_(value)

    return edit


def uneven_blocks(weight: torch.Tensor) -> None:
    """Adjacent blocks of very different magnitude."""
    weight[:, :32] *= 1e-3
    weight[:, 32:] *= 100
