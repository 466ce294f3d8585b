"""Graphs that a pass or a configuration of XNNPACK's treats as a special case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch.nn import BatchNorm1d, BatchNorm2d, Conv1d, Conv2d, Linear, Module

from harness import Case
from suites.build import nn_case, op, randn
from suites.ops.norm import NormBesideReader


class _Padded(Module):
    """A convolution behind a padding."""

    def __init__(self, layer: Module, pad: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.layer, self.pad = layer, pad

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(self.pad(x))
        return result


def _padded(name: str, layer: Callable[[], Module], pad: tuple[int, ...], value: float = 0) -> Case:
    spatial = 1 if name.startswith("1d") else 2
    return nn_case(
        f"padded_convolution/{name}",
        lambda: _Padded(layer(), lambda x: F.pad(x, pad, value=value)),
        randn(1, 3, *(6, 7)[:spatial]),
    )


_NORM = [
    nn_case("norm_beside_reader/conv2d",
            lambda: NormBesideReader(Conv2d(3, 4, 3), BatchNorm2d(4)), randn(1, 3, 6, 7)),
    nn_case("norm_beside_reader/conv1d",
            lambda: NormBesideReader(Conv1d(3, 4, 3), BatchNorm1d(4)), randn(1, 3, 9)),
    nn_case("norm_beside_reader/linear",
            lambda: NormBesideReader(Linear(5, 4), BatchNorm1d(4)), randn(3, 5)),
]  # fmt: skip
_CAT = [
    # XNNPACK concatenates at most five tensors; a pass divides more.
    op("cat_of_five/dim1", lambda x: torch.cat(x.exp().unbind(0), 1), randn(5, 2, 3, 4)),
    op("cat_of_nine/dim1", lambda x: torch.cat(x.exp().unbind(0), 1), randn(9, 2, 3, 4)),
    *(
        op(f"cat_of_seven/dim{dim}", lambda x, dim=dim: torch.cat(x.exp().unbind(0), dim),
           randn(7, 2, 3, 4))
        for dim in (0, 1, -1)
    ),
]  # fmt: skip
_PAD = [
    _padded("2d", lambda: Conv2d(3, 4, 3), (1, 2, 0, 1)),
    _padded("2d_channels", lambda: Conv2d(5, 4, 3), (0, 0, 0, 0, 1, 1)),
    _padded("2d_channels_and_width", lambda: Conv2d(5, 4, 3), (1, 0, 0, 0, 1, 1)),
    _padded("2d_with_a_value", lambda: Conv2d(3, 4, 3), (1, 1, 1, 1), 0.5),
    _padded("2d_and_own_padding", lambda: Conv2d(3, 4, 3, padding=1), (1, 0, 0, 1)),
    _padded("1d", lambda: Conv1d(3, 4, 3), (1, 2)),
    _padded("1d_channels", lambda: Conv1d(5, 4, 3), (0, 0, 1, 1)),
    _padded("1d_channels_and_length", lambda: Conv1d(5, 4, 3), (1, 0, 1, 1)),
]

_CLONE = op("clone/between_products", lambda x: (x * 2).clone() * 3, randn(3, 4))


def _with_dropout(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    product = x * 2
    return product, torch.dropout(product, 0.5, False)


_DROPOUT = op("dropout/beside_its_operand", _with_dropout, randn(3, 4))

CASES: list[Case] = [
    replace(_DROPOUT, targets="portable:fp32|xnnpack:fp32|tosa:fp|mlx:fp32"),
    # With dim orders exir makes another operator of it.
    replace(_CLONE, targets="xnnpack:fp32|xnnpack:fp32+skip_dim_order"),
    *(replace(case, targets="xnnpack:fp32") for case in (*_NORM, *_CAT)),
    *(replace(case, targets="xnnpack:fp32|xnnpack:int8") for case in _PAD),
    *(
        replace(case, name=f"{case.name}_int", targets="xnnpack:int8", tags=case.tags | {"int"})
        for case in _CAT
    ),
]
