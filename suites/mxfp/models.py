"""Several layers: an MLP, attention, a chain, layers used twice, and layers left in float."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F

from harness import Case
from suites.build import nn_case, randn
from suites.mlx.quantized import Gated
from suites.mxfp.build import ALL, ARM, SOME, on
from suites.selection import take_one_of


class Attention(torch.nn.Module):
    """Self-attention with two heads; its four projections have weights."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = torch.nn.Linear(width, width)
        self.key = torch.nn.Linear(width, width, bias=False)
        self.value = torch.nn.Linear(width, width)
        self.out = torch.nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        query, key, value = (
            layer(x).view(shape).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(query, key, value)
        projected: torch.Tensor = self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return projected


class Again(torch.nn.Module):
    """One layer, called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        again: torch.Tensor = self.layer(torch.relu(self.layer(x)))
        return again


class Siblings(torch.nn.Module):
    """Two layers with one input."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 16)
        self.second = torch.nn.Linear(64, 32, bias=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.first(x), self.second(x)


def _chain(*widths: int) -> torch.nn.Module:
    layers: list[torch.nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def _images() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3),  # three channels: stays float
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 64, 2, stride=2),
        torch.nn.Flatten(),
        torch.nn.Linear(256, 16),
    )


CASES: list[Case] = [
    *on(
        ALL,
        nn_case("mxfp_mlp/gated", lambda: Gated(32, 64), randn(3, 32), tags=["weights"]),
    ),
    *on(
        SOME,
        nn_case("mxfp_attention/self", lambda: Attention(32, 2), randn(1, 4, 32), tags=["weights"]),
        nn_case("mxfp_mlp/two_layers", lambda: _chain(64, 32, 16), randn(3, 64), tags=["weights"]),
        nn_case(
            "mxfp_mlp/four", lambda: _chain(32, 64, 32, 64, 16), randn(2, 32), tags=["weights"]
        ),
        nn_case("mxfp_mlp/first_float", lambda: _chain(40, 64, 16), randn(3, 40), tags=["weights"]),
        nn_case("mxfp_mlp/last_float", lambda: _chain(64, 40, 16), randn(3, 64), tags=["weights"]),
        nn_case("mxfp_mlp/used_twice", Again, randn(3, 64), tags=["weights"]),
        nn_case(
            "mxfp_mlp/two_names",
            lambda: torch.nn.Sequential(*[torch.nn.Linear(64, 64)] * 2),
            randn(3, 64),
            tags=["weights"],
        ),
        nn_case("mxfp_mlp/siblings", Siblings, randn(3, 64), tags=["weights"]),
    ),
    *on(ARM, nn_case("mxfp_images/conv_linear", _images, randn(1, 3, 6, 6), tags=["weights"])),
]
CASES = take_one_of(2, CASES)
