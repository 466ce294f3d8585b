"""Quantizers that are calibrated with other inputs than those that are judged.

The judged values of ``alike`` are drawn as the calibrated ones, those of ``wider`` from a range
three times as large, so that they leave the grids, and those of ``narrower`` from a quarter of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F

from harness import Case
from suites.build import Input, nn_case, op, uniform
from suites.quant.only import ALL, TOSA, WEIGHTLESS, on

_SIZES = {"alike": 1.0, "wider": 3.0, "narrower": 0.25}
_CALLS = 4

Make = Callable[[str, Callable[..., Input]], Case]


def _calibrated(make: Make) -> list[Case]:
    """Return a case for each size of the judged values.

    Args:
        make: takes the name of the size and a function from a shape to its inputs.
    """

    def draw(size: float) -> Callable[..., Input]:
        return lambda *shape: uniform(-size, size, *shape)

    cases = []
    for name, size in _SIZES.items():
        case, usual = make(name, draw(size)), make(name, draw(1.0))
        plain = "*" if name == "wider" else ""
        cases.append(replace(case, calibration=_draw_calls(usual), plain_targets=plain))
    return cases


def _draw_calls(case: Case) -> Callable[[], list[tuple[torch.Tensor, ...]]]:
    return lambda: [case.build()[1] for _ in range(_CALLS)]


def _operator(operator: str, function: Callable[..., torch.Tensor], inputs: int = 1) -> list[Case]:
    return _calibrated(
        lambda name, draw: op(
            f"calibrated_{operator}/{name}", function, *(draw(3, 8) for _ in range(inputs))
        )
    )


def _layer(operator: str, make: Callable[[], torch.nn.Module], *shape: int) -> list[Case]:
    return _calibrated(
        lambda name, draw: nn_case(f"calibrated_{operator}/{name}", make, draw(*shape))
    )


class _Residual(torch.nn.Module):
    """Two layers, and a sum of values of unlike ranges."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.second = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.relu(self.first(x))
        return x + 0.25 * self.second(hidden)


CASES: list[Case] = [
    *on(
        ALL,
        *_layer("linear", lambda: torch.nn.Linear(8, 6), 3, 8),
        *_layer("conv2d", lambda: torch.nn.Conv2d(3, 4, 3, padding=1), 1, 3, 6, 6),
    ),
    *on(
        WEIGHTLESS,
        *_operator("add", torch.add, 2),
        *_operator("mul", torch.mul, 2),
        *_operator("cat", lambda a, b: torch.cat([a, b], 1), 2),
        *_layer("residual", _Residual, 3, 8),
    ),
    *on(
        TOSA,
        *_operator("sigmoid", torch.sigmoid),
        *_operator("tanh", torch.tanh),
        *_operator("exp", torch.exp),
        *_operator("gelu", F.gelu),
        *_operator("softmax", lambda a: torch.softmax(a, -1)),
        *_operator("acos", lambda a: torch.acos(a * 0.3)),
        *_operator("asin", lambda a: torch.asin(a * 0.3)),
        *_operator("hardtanh", lambda a: F.hardtanh(a, -0.5, 0.75)),
    ),
]
