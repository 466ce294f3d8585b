"""Graphs that a pass of Arm's rewrites as a whole, and that no other suite has.

``conform coverage show --area tosa`` lists the passes whose code no cell executes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn import Conv1d, Conv2d, Conv3d, ConvTranspose2d, Module

from harness import Case
from suites.build import bools, ints, nn_case, op, randn, uniform


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


def _two_slices(x: torch.Tensor) -> torch.Tensor:
    """A slice of a slice, which FuseConsecutiveSlicesPass makes one."""
    return x[1:6, 2:][1:3, 1:4]


def _read_between(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    first = x[1:6, 2:]
    return first[1:3, 1:4], first * 2


def _as_strided(name: str, size: tuple[int, ...], stride: tuple[int, ...], offset: int = 0) -> Case:
    return op(f"as_strided/{name}", lambda x: (x + x).as_strided(size, stride, offset), randn(12))


# Arm's partitioner takes a layout that is a reshape, and leaves the others.
_STRIDED = [
    _as_strided("reshape", (3, 4), (4, 1)),
    _as_strided("reshape_with_one", (3, 1, 4), (4, 9, 1)),
    _as_strided("offset", (2, 4), (4, 1), 4),
    _as_strided("gaps", (3, 3), (4, 1)),
    _as_strided("repeated_rows", (3, 4), (0, 1)),
    _as_strided("columns", (4, 3), (1, 4)),
]


def _transposed(name: str, *args: Any, **options: Any) -> Case:
    return nn_case(
        f"transposed_padding/{name}", lambda: ConvTranspose2d(3, 4, *args, **options),
        randn(1, 3, 5, 6),
    )  # fmt: skip


# TOSA crops the result by less than the kernel, else it refuses the operator.
_CROPPED = [
    _transposed("below_kernel", 2, 2, padding=1, output_padding=1),
    _transposed("of_kernel_height", (2, 3), 2, padding=(2, 0)),
    _transposed("of_kernel_width", (3, 2), 2, padding=(0, 2), output_padding=(0, 1)),
]


def _identity(name: str) -> list[Case]:
    function = _IDENTITIES[name]
    return [
        op(f"identity/{name}", function, randn(3, 4)),
        op(f"identity/{name}_of_sum", lambda x: function(x + x), randn(3, 4)),
    ]


CASES: list[Case] = [
    *(replace(case, targets="tosa:fp") for case in (*_FLOAT, *_STRIDED, *_CROPPED)),
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
            nn_case("convolution/3d_depthwise", lambda: Conv3d(3, 6, 3, groups=3),
                    randn(1, 3, 5, 4, 4)),
            op("slice/of_slice", _two_slices, randn(7, 8)),
            op("slice/of_slice_read_between", _read_between, randn(7, 8)),
            op("max_pool2d/dilation_of_padded_negatives", F.max_pool2d,
               uniform(-9, -1, 2, 3, 9, 10), kernel_size=(3, 2), stride=(2, 1), padding=1,
               dilation=(1, 3)),
            op("index/int32_positions", lambda x, i: x[i], randn(6, 4),
               ints(0, 6, 2, 3, dtype=torch.int32)),
            op("index_put/bool_mask_of_rows",
               lambda x, m: x.index_put((m,), torch.tensor(-1.5)), randn(5, 3), bools(5)),
            op("int64_position/plus_one", lambda x: x.argmax(1) + 1, randn(2, 3, 8)),
            op("int64_position/plus_range", lambda x: x.argmax(1) + torch.arange(8),
               randn(2, 3, 8)),
        )
    ),
]  # fmt: skip
