"""Every producer with every consumer: a program for each producer, an output for each consumer.

Delegates fuse neighbours, so each chain has its own producer that nothing else reads. The input of
a chain is one element of a stacked input. Outputs are named ``PRODUCER_CONSUMER``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness import Case
from harness.model.registry import NIGHTLY

TARGETS = "xnnpack:fp32"
SHAPE = (1, 4, 6, 6)
"""The shape of every value."""

Chain = Callable[[Tensor], Tensor]


def _residual(x: Tensor) -> Tensor:
    return x + F.hardtanh(x, -0.4, 0.3)


def _join_halves(x: Tensor) -> Tensor:
    return torch.cat([x[:, 2:], x[:, :2]], 1)


_ACTIVATIONS: dict[str, Chain] = {
    "relu": F.relu,
    "relu6": lambda x: F.relu6(x * 4),
    "hardtanh": lambda x: F.hardtanh(x, -0.3, 0.4),
    "clamp": lambda x: x.clamp(-0.2, 0.5),
    "clamp_min": lambda x: x.clamp(min=-0.1),
    "clamp_max": lambda x: x.clamp(max=0.2),
    "clamp_infinite_min": lambda x: x.clamp(float("-inf"), 0.3),
    "clamp_infinite_max": lambda x: x.clamp(-0.3, float("inf")),
    "leaky_relu": F.leaky_relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hardswish": F.hardswish,
    "silu": F.silu,
    "gelu": F.gelu,
    "elu": F.elu,
}
_LAYOUTS: dict[str, Chain] = {
    "permute": lambda x: x.permute(0, 1, 3, 2),
    "view": lambda x: x.reshape(1, 6, 4, 6).reshape(SHAPE),
    "channels_inside": lambda x: x.permute(0, 2, 3, 1).reshape(SHAPE),
    "join_halves": _join_halves,
    "slice": lambda x: F.pad(x[..., 1:5], (1, 1)),
}
_ARITHMETIC: dict[str, Chain] = {
    "add_number": lambda x: x + 0.3,
    "mul_number": lambda x: x * -0.7,
    "number_sub": lambda x: 0.2 - x,
    "square": lambda x: x * x,
    "abs": torch.abs,
    "neg": torch.neg,
    "residual": _residual,
    "half": lambda x: x.half().float(),
    "maximum": lambda x: torch.maximum(x, -0.5 * x),
    "where": lambda x: torch.where(x > 0.1, x, x * 0.5),
    "softmax": partial(torch.softmax, dim=-1),
    "mean": lambda x: x - x.mean((2, 3), keepdim=True),
    "avg_pool": lambda x: F.avg_pool2d(x, 3, 1, 1),
    "max_pool": lambda x: F.max_pool2d(x, 3, 1, 1),
}
CONSUMERS: dict[str, Chain] = {**_ACTIVATIONS, **_LAYOUTS, **_ARITHMETIC}

LAYERS: dict[str, Callable[[], nn.Module]] = {
    "conv2d": lambda: nn.Conv2d(4, 4, 3, padding=1),
    "depthwise": lambda: nn.Conv2d(4, 4, 3, padding=1, groups=4),
    "transposed_conv2d": lambda: nn.ConvTranspose2d(4, 4, 3, padding=1),
    "linear": lambda: nn.Linear(6, 6),
    "linear_no_bias": lambda: nn.Linear(6, 6, bias=False),
    "layer_norm": lambda: nn.LayerNorm(6),
}
BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mul": torch.mul,
    "add": torch.add,
    "sub": torch.sub,
    "div": lambda x, y: x / (y.abs() + 1),
    "bmm": lambda x, y: torch.matmul(x, y) * 0.3,
}
PRODUCERS = [*LAYERS, *BINARY, *CONSUMERS]

WRONG: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("conv2d", "depthwise", "transposed_conv2d", "mean", "max_pool"), ("softmax",)),
    "relu6": ("relu", "hardtanh"),
}
"""Consumers that XNNPACK gets wrong behind a producer. They are cases of their own, such as
``_softmax/behind_convolution`` and ``relu/behind_relu6_of_product``: a limitation of a program
would hide its other chains."""


def list_consumers(producer: str) -> dict[str, Chain]:
    """Return the consumers behind a producer."""
    left_out = WRONG.get(producer, ())
    return {name: chain for name, chain in CONSUMERS.items() if name not in left_out}


class Pairs(nn.Module):
    """Runs one producer and each consumer on their own part of the stacked inputs."""

    def __init__(self, producer: str) -> None:
        super().__init__()
        self.producer, self.consumers = producer, list_consumers(producer)
        made = [LAYERS[producer]() for _ in self.consumers] if producer in LAYERS else []
        self.layers = nn.ModuleList(made)

    def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Return the outputs by name.

        Args:
            x: inputs of all chains, (chains, 1, 4, 6, 6).
            y: second inputs of producers with two, of the same shape.
        """
        found = {}
        for place, (name, consume) in enumerate(self.consumers.items()):
            if self.layers:
                value = self.layers[place](x[place])
            elif self.producer in BINARY:
                value = BINARY[self.producer](x[place], y[place])
            else:
                value = CONSUMERS[self.producer](x[place])
            found[f"{self.producer}_{name}"] = consume(value)
        return found


def _make_case(producer: str) -> Case:
    def build() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
        shape = (len(list_consumers(producer)), *SHAPE)
        return Pairs(producer), (torch.randn(shape), torch.randn(shape))

    tags = {"ops", "fp32", "composition", *(() if producer == "mul" else (NIGHTLY,))}
    return Case(f"pairs/{producer}", build, tags=frozenset(tags), targets=TARGETS)


CASES = [_make_case(producer) for producer in PRODUCERS]
