"""Graphs that a pass of Arm's rewrites as a whole, and that no other suite has.

``conform coverage show --area tosa`` lists the passes whose code no cell executes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import torch
from torch.nn import Conv1d, Conv2d, Module

from harness import Case
from suites.build import nn_case, op, randn


class _Scaled(Module):
    """A convolution times a constant, which FoldScalarMulIntoConvPass moves into the weights."""

    def __init__(self, convolution: Module, scale: float | torch.Tensor) -> None:
        super().__init__()
        self.convolution = convolution
        self.scale = scale if isinstance(scale, float) else torch.nn.Buffer(scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.convolution(x) * self.scale
        return result


class _ScaledAndReturned(_Scaled):
    """The convolution has another reader, which must get it without the factor."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        result = self.convolution(x)
        return result, result * self.scale


class _ScaledOnce(_Scaled):
    """Two convolutions share weights; only one has a factor."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.convolution(x) * self.scale + self.convolution(x + 1)
        return result


def _channels(*factors: float) -> torch.Tensor:
    return torch.tensor(factors).reshape(1, -1, 1, 1)


def _scaled(name: str, module: Callable[[], Module], *shape: int) -> Case:
    return nn_case(f"scaled_convolution/{name}", module, randn(*(shape or (2, 3, 6, 7))))


_FLOAT = [
    _scaled("number", lambda: _Scaled(Conv2d(3, 4, 3), -1.7)),
    _scaled("no_bias", lambda: _Scaled(Conv2d(3, 4, 3, bias=False), 0.37)),
    _scaled("rank0", lambda: _Scaled(Conv2d(3, 4, 3), torch.tensor(0.37))),
    _scaled("channels", lambda: _Scaled(Conv2d(3, 4, 3), _channels(0.1, 2, -0.5, 1.3))),
    # Neither a factor a channel nor one for all: along the width, which has as many elements.
    _scaled("width", lambda: _Scaled(Conv2d(3, 5, 3), torch.linspace(0.2, 2, 5))),
    _scaled("depthwise", lambda: _Scaled(Conv2d(3, 3, 3, groups=3), _channels(0.2, 1.1, -2))),
    _scaled("one_dimension", lambda: _Scaled(Conv1d(3, 4, 3), 0.37), 2, 3, 9),
    _scaled("returned_as_well", lambda: _ScaledAndReturned(Conv2d(3, 4, 3), 0.37)),
    _scaled("of_two_that_share", lambda: _ScaledOnce(Conv2d(3, 4, 3), 0.37)),
]

# Operators without effect, which TOSA drops. The partitioner must not make a delegate of nothing.
_IDENTITIES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "expand": lambda x: x.expand(3, 4),
    "permute": lambda x: x.permute(0, 1),
    "squeeze": lambda x: x.squeeze(0),
    "flip": lambda x: x.flip(()),
    "view": lambda x: x.view(3, 4),
    "slice": lambda x: x[0:3],
    "repeat": lambda x: x.repeat(1, 1),
    "cat": lambda x: torch.cat([x]),
}


def _identity(name: str) -> list[Case]:
    function = _IDENTITIES[name]
    return [
        op(f"identity/{name}", function, randn(3, 4)),
        op(f"identity/{name}_of_sum", lambda x: function(x + x), randn(3, 4)),
    ]


CASES: list[Case] = [
    *(replace(case, targets="tosa:fp") for case in _FLOAT),
    # With a quantizer the pass changes the caller's module, a limitation of suites/compositions,
    # unless the convolution has another reader.
    *(
        replace(case, targets="tosa:int", name=f"{case.name}_int", tags=case.tags | {"int"})
        for case in _FLOAT[-2:]
    ),
    *(
        replace(case, targets="tosa:fp|tosa:int")
        for case in (
            *itertools.chain.from_iterable(map(_identity, _IDENTITIES)),
            op("int64_position/plus_one", lambda x: x.argmax(1) + 1, randn(2, 3, 8)),
            op("int64_position/plus_range", lambda x: x.argmax(1) + torch.arange(8),
               randn(2, 3, 8)),
        )
    ),
]  # fmt: skip
