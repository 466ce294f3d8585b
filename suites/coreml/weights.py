"""Compressed weights: groups and channels of 4 and 8 bits, palettes, and 8-bit activations."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from harness import Case
from suites.build import nn_case, randn
from suites.coreml.only import on_coreml

_GROUPED = "coreml:int4|coreml:int8_weights_grouped"
_BY_CHANNEL = "coreml:int4_per_channel|coreml:int8_weights"


class Tied(nn.Module):
    """Two layers with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.second(self.first(x).relu())
        return result


def _make_layers() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 16, bias=False))


def _make_outlier() -> nn.Module:
    layer = nn.Linear(64, 32)
    with torch.no_grad():
        layer.weight[:, 5] *= 50
        layer.weight[3] = 0
    return layer


def _make_image_layers() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10)
    )


CASES: list[Case] = [
    *on_coreml(
        nn_case("weights/two_layers", _make_layers, randn(5, 64)),
        nn_case("weights/outlier_and_zero_row", _make_outlier, randn(5, 64)),
        targets=f"{_GROUPED}|coreml:lut4",
    ),
    *on_coreml(
        nn_case("weights/two_layers_by_channel", _make_layers, randn(5, 64)),
        targets=_BY_CHANNEL,
    ),
    *on_coreml(
        nn_case("weights/tied", Tied, randn(5, 64)),
        targets="coreml:int4",
    ),
    # CoreML's quantizer takes a minute for any program.
    *(
        replace(case, tags=case.tags | {"nightly"})
        for case in on_coreml(
            nn_case("pt2e/layers", _make_layers, randn(5, 64)),
            nn_case("pt2e/image_layers", _make_image_layers, randn(1, 3, 8, 8)),
            targets="coreml:int8|coreml:int8_pt2e_weights",
        )
    ),
]
