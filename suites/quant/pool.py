"""Pooling and means on the integer recipes, after a layer where XNNPACK shares its scale."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import AdaptiveAvgPool2d, AvgPool2d, Conv2d, MaxPool2d, Module, Sequential
from torch.nn.functional import hardtanh, relu6

from harness import Case
from suites.build import COARSE, add_vacuous_reasons, nn_case, op, randn, uniform
from suites.quant.only import TOSA, WEIGHTLESS, in_turns, on


class _Clamped(torch.nn.Module):
    """A clamp between a pooling and a layer; the quantizers know no ``relu6``."""

    def __init__(self, clamp: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.first, self.last = Conv2d(2, 3, 1), Conv2d(3, 2, 1)
        self.clamp = clamp

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.last(self.clamp(torch.max_pool2d(self.first(x), 2)))
        return result


class _Mean(torch.nn.Module):
    def __init__(self, keepdim: bool) -> None:
        super().__init__()
        self.keepdim = keepdim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3), keepdim=self.keepdim)


def _behind_conv(name: str, pool: Callable[[], Module]) -> Case:
    return nn_case(
        f"int_pool/{name}_behind_conv", lambda: Sequential(Conv2d(2, 3, 1), pool()),
        randn(1, 2, 6, 4),
    )  # fmt: skip


CASES: list[Case] = [
    *on(
        WEIGHTLESS,
        _behind_conv("max", lambda: MaxPool2d(2)),
        _behind_conv("max_overlapping", lambda: MaxPool2d(3, 1, padding=1)),
        _behind_conv("avg", lambda: AvgPool2d(2)),
        _behind_conv("adaptive_avg", lambda: AdaptiveAvgPool2d(1)),
        _behind_conv("mean", lambda: _Mean(keepdim=True)),
        _behind_conv("mean_drops_dims", lambda: _Mean(keepdim=False)),
        nn_case(
            "int_pool/max_chain",
            lambda: Sequential(Conv2d(2, 3, 1), MaxPool2d(2), MaxPool2d(2, 1)),
            randn(1, 2, 6, 6),
        ),
        nn_case("int_pool/max_then_relu6", lambda: _Clamped(relu6), randn(1, 2, 6, 4)),
        nn_case(
            "int_pool/max_then_clamp",
            lambda: _Clamped(lambda x: x.clamp(-0.1, 0.5)),
            randn(1, 2, 6, 4),
        ),
        nn_case(
            "int_pool/max_then_hardtanh",
            lambda: _Clamped(lambda x: hardtanh(x, -0.1, 0.5)),
            randn(1, 2, 6, 4),
        ),
    ),
    *on(
        TOSA,
        nn_case("int_pool/max", lambda: MaxPool2d(2), randn(1, 3, 4, 6)),
        nn_case("int_pool/avg", lambda: AvgPool2d(2), uniform(0, 1, 1, 3, 4, 6)),
        nn_case("int_pool/avg_padding", lambda: AvgPool2d(3, 1, 1), randn(1, 3, 4, 4)),
        nn_case("int_pool/adaptive_avg", lambda: AdaptiveAvgPool2d((2, 2)), randn(1, 3, 4, 4)),
        op("int_mean/last", torch.mean, randn(3, 8), dim=-1),
        op("int_mean/two_dims", torch.mean, uniform(2, 3, 2, 3, 4), dim=(0, 2), keepdim=True),
        op("int_sum/last", torch.sum, randn(3, 8), dim=-1),
    ),
]

CASES = add_vacuous_reasons(
    CASES,
    {
        "int_mean/two_dims": COARSE,
    },
)

CASES = in_turns(CASES)
