"""Every producer with every consumer: a program for each producer, an output for each consumer.

Delegates fuse neighbours, so each chain has its own producer that nothing else reads. The input of
a chain is one element of a stacked input. Outputs are named ``PRODUCER_CONSUMER``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness import Case
from harness.model.registry import NIGHTLY

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

ALL = "*"


@dataclass(frozen=True)
class Group:
    """Targets with the same chains.

    Attributes:
        name: the first part of the names of its cases.
        targets: globs over targets.
        apart: consumers by producer that a target gets wrong or refuses. They are left out of the
            programs, because a limitation of a program would hide its other chains. Consumers of
            ``ALL`` are left out behind every producer. A producer without consumers has no program.
        alone: chains among those left out that are programs of their own, with a limitation;
            others have the same cause, or a case in another suite.
        adds: whether each chain begins and ends with a sum. Quantizers give codes to both sides of
            an operator between two sums, also of one that they do not know.
    """

    name: str
    targets: str
    apart: Mapping[str, Collection[str]]
    alone: Collection[tuple[str, str]] = ()
    adds: bool = False

    def list_consumers(self, producer: str) -> list[str]:
        """Return the names of the consumers behind a producer."""
        left_out = {*self.apart.get(ALL, ()), *self.apart.get(producer, ())}
        return [name for name in CONSUMERS if name not in left_out]

    def make_cases(self) -> Iterator[Case]:
        """Make the programs of the producers, and the chains that are alone."""
        for producer in PRODUCERS:
            if chains := [(producer, consumer) for consumer in self.list_consumers(producer)]:
                yield self._make_case(producer, chains)
        for producer, consumer in self.alone:
            yield self._make_case(f"{producer}_then_{consumer}", [(producer, consumer)])

    def _make_case(self, name: str, chains: list[tuple[str, str]]) -> Case:
        def build() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
            shape = (len(chains), *SHAPE)
            return Pairs(chains, self.adds), (torch.randn(shape), torch.randn(shape))

        is_plain = name == "mul" and self.name == "pairs"
        tags = {"ops", "fp32", "composition", *(() if is_plain else (NIGHTLY,))}
        return Case(f"{self.name}/{name}", build, tags=frozenset(tags), targets=self.targets)


class Pairs(nn.Module):
    """Runs chains of a producer and a consumer, each on its own part of the stacked inputs.

    Args:
        chains: names of producer and consumer of each chain.
        adds: whether a chain begins with the sum of the inputs, unless its producer is a layer or
            takes both, and ends with a sum of its result and the first input.
    """

    def __init__(self, chains: Collection[tuple[str, str]], adds: bool = False) -> None:
        super().__init__()
        self.chains = chains
        self.adds = adds
        self.layers = nn.ModuleDict({
            "_".join(chain): LAYERS[chain[0]]() for chain in chains if chain[0] in LAYERS
        })  # fmt: skip

    def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Return the outputs by name.

        Args:
            x: inputs of all chains, (chains, 1, 4, 6, 6).
            y: second inputs of producers with two, of the same shape.
        """
        found = {}
        for place, (producer, consumer) in enumerate(self.chains):
            name = f"{producer}_{consumer}"
            if producer in LAYERS:
                value = self.layers[name](x[place])
            elif producer in BINARY:
                value = BINARY[producer](x[place], y[place])
            else:
                value = CONSUMERS[producer](x[place] + y[place] if self.adds else x[place])
            result = CONSUMERS[consumer](value)
            found[name] = result + x[place] if self.adds else result
        return found


_CONVOLUTIONS = ("conv2d", "depthwise", "transposed_conv2d")
_TRANSPOSED_INSIDE = (*_CONVOLUTIONS, "avg_pool", "max_pool")
"""Operators around which Arm's passes transpose images."""
_WRONG_SOFTMAX = dict.fromkeys((*_CONVOLUTIONS, "mean", "max_pool"), ("softmax",))
"""Producers behind which XNNPACK computes a softmax over the channels."""
_CLAMPED = tuple(name for name in _ACTIVATIONS if name.startswith("clamp"))
_CLAMPS = ("relu", "hardtanh", *_CLAMPED)
_PROMOTED = ("div", "sigmoid", "tanh", *_CLAMPED)
"""Operators whose results torch promotes to floats if their operands are codes."""
_BESIDE_NUMBERS = ("relu6", "add_number", "mul_number", "number_sub", "maximum")
"""Consumers that begin with a sum or product of their input and a number."""
_BEHIND_POOLS = (*_BESIDE_NUMBERS, "join_halves", "slice", "view", "avg_pool")
"""Consumers that Cortex-M gets wrong or refuses behind a pooling, whose result is channels-last."""

GROUPS = [
    Group(
        "pairs",
        "xnnpack:fp32|mlx:fp32",
        # XNNPACK's defects are cases of suites/ops: ``_softmax/behind_convolution`` and
        # ``relu/behind_relu6_of_product``.
        {**_WRONG_SOFTMAX, "relu6": ("relu", "hardtanh")},
    ),
    Group(
        "pairs_int8",
        "xnnpack:int8",
        {ALL: ("slice",), **_WRONG_SOFTMAX},
        alone=[("mul", "slice")],
    ),
    Group(
        "pairs_cortex_m",
        "cortex_m:int8",
        # Hardswish behind other operators than layers has a limitation in suites/ops. The programs
        # of pairs_int8 suit Cortex-M, too, and have limitations because of it.
        {
            ALL: ("hardswish", "mean", "where"),
            **dict.fromkeys(("hardswish", "mean", "where"), CONSUMERS),
            "linear": ("residual",),
            "softmax": ("maximum",),
            **dict.fromkeys(_PROMOTED, (*_CLAMPS, "residual")),
            **dict.fromkeys(("avg_pool", "max_pool"), _BEHIND_POOLS),
        },
        alone=[
            ("mul", "mean"),
            ("avg_pool", "mul_number"),
            ("max_pool", "number_sub"),
            ("avg_pool", "join_halves"),
            ("avg_pool", "avg_pool"),
            ("max_pool", "view"),
            ("mul", "where"),
            ("clamp", "relu"),
            ("clamp", "clamp"),
            ("linear", "residual"),
            ("softmax", "maximum"),
        ],
    ),
    Group(
        "pairs_tosa",
        "tosa:fp",
        # Arm's elu, tanh and numbers before a transposition have limitations in suites/ops and
        # suites/crossings.
        {
            ALL: ("elu", "tanh"),
            **dict.fromkeys(("elu", "tanh"), CONSUMERS),
            **dict.fromkeys(_TRANSPOSED_INSIDE, ("number_sub",)),
        },
        alone=[("conv2d", "number_sub")],
    ),
    Group(
        "pairs_tosa_int",
        "tosa:int",
        {
            ALL: ("neg",),
            "neg": CONSUMERS,
            **dict.fromkeys(("conv2d", "depthwise"), ("relu6", "mul_number", "number_sub")),
            **dict.fromkeys(
                ("transposed_conv2d", "permute", "channels_inside", "avg_pool", "max_pool"),
                ("number_sub",),
            ),
            "number_sub": ("permute", "channels_inside", "max_pool"),
            **dict.fromkeys(("sigmoid", "tanh"), ("where", "avg_pool")),
        },
        alone=[
            ("relu", "neg"),
            ("conv2d", "mul_number"),
            ("conv2d", "number_sub"),
            ("sigmoid", "where"),
            ("sigmoid", "avg_pool"),
        ],
    ),
    Group(
        "pairs_metal",
        "metal:fp32",
        # Metal's convolutions of images and its elu have limitations in suites/ops.
        {ALL: ("elu",), **dict.fromkeys(("elu", *_CONVOLUTIONS), CONSUMERS)},
    ),
    Group(
        "sums_int8",
        "xnnpack:int8_per_tensor",  # Cortex-M has the cases of int8
        # XNNPACK's defect of clamps behind a pool is a case of suites/quant (int_pool).
        {ALL: ("slice",), "slice": CONSUMERS, **_WRONG_SOFTMAX, "max_pool": ("softmax", *_CLAMPED)},
        alone=[("max_pool", "clamp_infinite_min")],
        adds=True,
    ),
]

CASES = [case for group in GROUPS for case in group.make_cases()]
