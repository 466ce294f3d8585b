"""Helpers of the integer suites: targets of cases, and distributions of activations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch

from harness import Case
from suites.build import Input, Shape
from suites.selection import take_turns

TOSA = "tosa:int"
# Sums, products, joins, pools: int8_dynamic leaves them in float, int8_per_tensor equals int8.
WEIGHTLESS = f"xnnpack:int8|{TOSA}"
STATIC = f"xnnpack:int8|xnnpack:int8_per_tensor|{TOSA}"
# Cases that are not about weights: int8_per_tensor differs from int8 only in weight scales.
WEIGHTS_ASIDE = f"xnnpack:int8|xnnpack:int8_dynamic|{TOSA}"
ALL = f"xnnpack:int8*|{TOSA}"
# Linear layers and calibration show per-tensor scales in a plain run.
WITHOUT_PER_TENSOR = "xnnpack:int8|xnnpack:int8_dynamic*|xnnpack:int8+*"


def on(targets: str, *cases: Case, tags: Iterable[str] = ()) -> list[Case]:
    """Restrict cases to integer targets."""
    return [replace(case, targets=targets, tags=case.tags | {"int", *tags}) for case in cases]


def in_turns(cases: Iterable[Case], xnnpack: str = "xnnpack:*") -> list[Case]:
    """Let further cases of an operator take turns on TOSA, XNNPACK and none in a plain run.

    Args:
        cases: cases on integer targets; those on one backend alone do not take turns.
        xnnpack: globs over XNNPACK's targets of a plain run.
    """
    cases = list(cases)
    shared = [case for case in cases if "tosa" in case.targets and "xnnpack" in case.targets]
    turns = {case.name: case for case in take_turns(shared, (f"{TOSA}*", "", xnnpack, ""))}
    taking = [turns.get(case.name, case) for case in cases]
    every = f"{xnnpack}|{TOSA}*"
    return [
        replace(case, plain_targets=every) if case.plain_targets == "*" else case for case in taking
    ]


def spread(*shape: int, dim: int = 1) -> Input:
    """Normal values whose magnitude grows from 1 to 100 along a dimension.

    A single scale rounds away most of the smallest values.
    """

    def draw(size: Shape) -> torch.Tensor:
        ones = [1] * len(size)
        ones[dim] = -1
        return torch.randn(size) * torch.logspace(0, 2, size[dim]).reshape(ones)

    return Input(shape, draw)


def outlier(*shape: int) -> Input:
    """Normal values and one value 20 times as large as the others."""

    def draw(size: Shape) -> torch.Tensor:
        values = torch.randn(size)
        values.view(-1)[values.numel() // 2] = 60.0
        return values

    return Input(shape, draw)
