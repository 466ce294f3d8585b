"""Float16 modules quantized to 8 bits, on XNNPACK.

torchao writes the module's dtype into each dequantize (``out_dtype``), and passes that copy or move
a dequantize have to keep it there and leave it out of a quantize.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import (
    BatchNorm2d,
    Conv2d,
    ConvTranspose2d,
    Flatten,
    Linear,
    MaxPool2d,
    Module,
    ReLU,
    Sequential,
)

from harness import Case
from suites.build import nn_case, op, randn
from suites.quant.only import on

_HALF = torch.float16
_STATIC = "xnnpack:int8"
_ANY = "xnnpack:int8|xnnpack:int8_dynamic"


class _HalfResidual(Module):
    """A convolution whose result is added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = Conv2d(4, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.layer(x))


def _layer(name: str, make: Callable[[], Module], *shape: int) -> Case:
    return nn_case(f"half_int8/{name}", lambda: make().eval().to(_HALF), randn(*shape, dtype=_HALF))


def _op(name: str, function: Callable[..., Tensor], *shapes: tuple[int, ...]) -> Case:
    return op(f"half_int8/{name}", function, *(randn(*shape, dtype=_HALF) for shape in shapes))


def _join(x: Tensor) -> Tensor:
    """Concatenate the quantized sums of the first dimension."""
    return torch.cat([each + 1 for each in x.unbind(0)], 1)


def _normalized() -> Module:
    return Sequential(Conv2d(3, 4, 3), BatchNorm2d(4), ReLU())


def _classifier() -> Module:
    return Sequential(
        Conv2d(3, 4, 3, padding=1), ReLU(), MaxPool2d(2), Conv2d(4, 4, 3, groups=4), Flatten(),
        Linear(4 * 2 * 2, 5),
    )  # fmt: skip


CASES: list[Case] = [
    *on(
        _ANY,
        _layer("linear", lambda: Linear(12, 8), 3, 12),
        _layer("linear_without_bias", lambda: Linear(12, 8, bias=False), 2, 3, 12),
        _layer("mlp", lambda: Sequential(Linear(12, 16), ReLU(), Linear(16, 4)), 4, 12),
    ),
    *on(
        _STATIC,
        _layer("convolution", lambda: Conv2d(3, 4, 3, stride=2, padding=1), 1, 3, 8, 8),
        _layer("transposed", lambda: ConvTranspose2d(3, 4, 3, stride=2), 1, 3, 5, 5),
        _layer("batch_norm", _normalized, 1, 3, 8, 8),
        _layer("residual", _HalfResidual, 1, 4, 6, 6),
        _layer("classifier", _classifier, 1, 3, 8, 8),
        # XNNPACK concatenates at most five tensors; a pass divides more.
        _op("cat_of_two", _join, (2, 3, 4)),
        _op("cat_of_seven", _join, (7, 3, 4)),
    ),
]
