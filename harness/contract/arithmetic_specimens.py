"""Specimens about arithmetic: ends of domains, near ties, and cancellation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from harness.contract.specimens import Expected, Specimen, SpecimenKind, make_specimen, plant_fault
from harness.model.case import Inputs

ARITHMETIC_SPECIMENS: list[Specimen] = []


def _add_specimen(*args: Any) -> None:
    ARITHMETIC_SPECIMENS.append(make_specimen(SpecimenKind.ARITHMETIC, *args))


def _matrix() -> Inputs:
    return (torch.randn(3, 4),)


def _applied(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    return lambda _, x: function(x)


def _vector(values: list[float]) -> Inputs:
    return (torch.tensor(values),)


def _pair() -> Inputs:
    return torch.randn(8, 16), torch.randn(16, 8)


_add_specimen(
    "cancelling_addmm",
    lambda _, x, y: torch.addmm(x.abs() @ y.abs(), x.abs(), y.abs(), alpha=-1.0),
    _pair,
)
_add_specimen(
    "cancelling_addmm_wrong",
    lambda _, x, y: torch.addmm(
        x.abs() @ y.abs(), x.abs(), y.abs(), alpha=plant_fault(-1.0, -1.001)
    ),
    _pair,
    Expected.DIFFERS,
)
for name, function, ends in (
    # The ends alone: elsewhere Arm's polynomial is off (suites/ops/limitations/tosa_fp.py).
    ("asin", torch.asin, [-1.0, 1.0]),
    ("acos", torch.acos, [-1.0, 1.0]),
    ("acosh", torch.acosh, [1.0, 1.5, 2.0, 30.0]),
    ("atanh", torch.atanh, [-1.0, 1.0, 0.5, -0.25]),
    ("log", torch.log, [0.0, 1.0, 0.5, 3.0]),
    ("sqrt", torch.sqrt, [0.0, 1.0, 0.5, 3.0]),
    ("silu", torch.nn.functional.silu, [-89.0, -100.0, 0.5, 3.0]),
    ("softplus", torch.nn.functional.softplus, [-104.0, 89.0, 0.5, 19.9]),
    ("logsigmoid", torch.nn.functional.logsigmoid, [-89.0, 104.0, 0.5, 3.0]),
    ("gelu", torch.nn.functional.gelu, [-14.0, -5.0, 0.5, 3.0]),
):
    _add_specimen(
        f"{name}_at_its_ends",
        _applied(function),
        functools.partial(_vector, ends),
    )
_add_specimen(
    "rfft2",
    lambda _, x: torch.view_as_real(torch.fft.rfft2(x)),
    lambda: (torch.randn(8, 8),),
)
_add_specimen(
    "remainder",
    lambda _, x: torch.remainder(x, 0.7),
    lambda: (torch.randn(64) * 1000,),
)
_add_specimen(
    "floor_of_tenths",
    lambda _, x: torch.floor(x * 10),
    lambda: (torch.arange(40) / 10,),
)
_add_specimen(
    "round_of_twentieths",
    lambda _, x: torch.round(x / 0.05),
    lambda: (torch.arange(80) / 40,),
)
_add_specimen(
    "floor_wrong",
    lambda _, x: torch.floor(x * 10 + plant_fault(0.0, 1.0)),
    lambda: (torch.arange(40) / 10,),
    Expected.DIFFERS,
)
_add_specimen(
    "topk_of_ties",
    lambda _, x: tuple(torch.topk(x, 3)),
    lambda: (torch.tensor([[1.0, 5.0, 5.0, 5.0, 5.0, 0.0], [2.0, 2.0, 9.0, 1.0, 2.0, 2.0]]),),
)
_add_specimen(
    "argmax_of_ties",
    lambda _, x: (x.argmax(-1), x * 2),
    lambda: (torch.tensor([[1.0, 5.0, 5.0, 0.0], [2.0, 1.0, 2.0, 2.0]]),),
)
_add_specimen(
    "argmax_wrong",
    lambda _, x: (x * plant_fault(1.0, -1.0)).argmax(-1),
    lambda: (torch.tensor([[1.0, 5.0, 3.0, 0.0], [2.0, 1.0, 2.5, 2.0]]),),
    Expected.DIFFERS,
)
_add_specimen(
    "interpolate",
    lambda _, x: torch.nn.functional.interpolate(
        x, scale_factor=3, mode="bilinear", align_corners=True
    ),
    lambda: (torch.randn(1, 2, 5, 5),),
)
_add_specimen(
    "duplicate_indices",
    lambda _, x, values: x.index_put((torch.tensor([1, 1, 2]),), values),
    lambda: (torch.randn(4, 3), torch.randn(3, 3)),
)
_add_specimen(
    "sum_of_equal_terms",
    lambda _, x: x.sum(),
    lambda: (torch.full((2**18,), 0.1),),
)
_add_specimen("left_over_sort", lambda _, x: torch.sort(x * 2)[0] + 1, _matrix)
