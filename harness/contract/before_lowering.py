"""Specimens about the steps before lowering: rewriting, quantizing, and the inputs of each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from harness.contract.specimens import Expected, Specimen, SpecimenKind, plant_fault
from harness.model.case import Case, Inputs

Build = Callable[[], tuple[torch.nn.Module, Inputs]]


class _Applied(torch.nn.Module):
    """Applies a function to its inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


class _Layer(torch.nn.Module):
    """A bfloat16 layer whose exported program may return another dtype."""

    def __init__(self, layer: torch.nn.Module, exported_dtype: torch.dtype) -> None:
        super().__init__()
        self.layer = layer.bfloat16()
        self.exported_dtype = exported_dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(x)
        return result.to(plant_fault(result.dtype, self.exported_dtype))


class _Masked(torch.nn.Module):
    """Masked softmax. Its export may write to the caller's mask, bypassing torch's dispatcher, or
    leave the module in training mode. The mask is bool, because no recipe casts that.
    """

    mask: torch.Tensor

    def __init__(self, *, overwrites: bool = False, trains: bool = False) -> None:
        super().__init__()
        self.overwrites, self.trains = overwrites, trains
        self.register_buffer("mask", torch.ones(4, 4, dtype=torch.bool).triu(1))
        self.memory = self.mask.numpy()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_exporting() and self.overwrites:
            self.memory[0, 3] = False
        if torch.compiler.is_exporting() and self.trains:
            self.train()
        return torch.softmax(x.masked_fill(self.mask, -torch.inf), -1)


def _variance(keeps: Callable[[], bool]) -> Build:
    def function(x: torch.Tensor) -> torch.Tensor:
        variance: torch.Tensor = torch.ops.aten.var.dim(x, [1], False, keeps())
        return variance

    return lambda: (_Applied(function), (torch.randn(2, 5, 6),))


def _pair(x: torch.Tensor) -> Any:
    return x * 2 + 1, x - 3


def _exchanged(x: torch.Tensor) -> Any:
    return plant_fault(_pair(x), _pair(x)[::-1])


def _attention(factor: Callable[[], float]) -> Build:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * factor(), -1)

    return lambda: (_Applied(function), (torch.randn(4, 8),))


def _linear(exported_dtype: torch.dtype) -> Build:
    return lambda: (
        _Layer(torch.nn.Linear(64, 32), exported_dtype),
        (torch.randn(4, 64, dtype=torch.bfloat16),),
    )


def _conv2d(exported_dtype: torch.dtype) -> Build:
    return lambda: (
        _Layer(torch.nn.Conv2d(32, 32, 3), exported_dtype),
        (torch.randn(1, 32, 6, 6, dtype=torch.bfloat16),),
    )


def _masked(**faults: bool) -> Build:
    return lambda: (_Masked(**faults), (torch.randn(4, 4),))


_RIGHT: dict[str, Build] = {
    "variance_keeps_its_dimension": _variance(lambda: True),
    "two_outputs_of_one_shape": lambda: (_Applied(_pair), (torch.randn(3, 4),)),
    "scaled_softmax": _attention(lambda: 0.25),
    "bfloat16_linear": _linear(torch.bfloat16),
    "bfloat16_conv2d": _conv2d(torch.bfloat16),
    "masked_softmax": _masked(),
}
_WRONG: dict[str, Build] = {
    "variance_loses_its_dimension": _variance(lambda: plant_fault(True, False)),
    "two_outputs_exchanged": lambda: (_Applied(_exchanged), (torch.randn(3, 4),)),
    "softmax_without_its_factor": _attention(lambda: plant_fault(0.25, 1.0)),
    "bfloat16_linear_returns_float32": _linear(torch.float32),
    "bfloat16_conv2d_returns_float32": _conv2d(torch.float32),
    "mask_overwritten": _masked(overwrites=True),
    "training_mode_left_on": _masked(trains=True),
}

_BFLOAT16 = "bfloat16_"

BEFORE_LOWERING_SPECIMENS: list[Specimen] = [
    Specimen(Case(f"specimen/{name}", build), expected, SpecimenKind.BEFORE_LOWERING)
    for expected, builds in ((Expected.CONFORMS, _RIGHT), (Expected.DIFFERS, _WRONG))
    for name, build in builds.items()
]
QUANTIZER_SPECIMENS: list[Specimen] = [
    one
    for one in BEFORE_LOWERING_SPECIMENS
    if not one.case.name.startswith(f"specimen/{_BFLOAT16}")
]
"""Specimens for recipes with a quantizer. Without bfloat16: the runtime's dequantizing kernels
write only float32 and abort the process for bfloat16 (dequantize_per_channel_out,
kernels/quantized/cpu).
"""
