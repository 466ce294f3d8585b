"""Faults planted in lowered graphs turn cells red; the same cells without a fault stay green."""

from __future__ import annotations

import numpy
import pytest
import torch
from torch.nn import Conv2d, Linear, ReLU, Sequential, Sigmoid

from backends.vgf.tests import planting
from backends.vgf.tests.planting import Fault, change_constant
from backends.vgf.tests.requirements import needs_runtime
from harness import Case, Status, run_cell

pytestmark = needs_runtime


class Difference(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x - y


class Reversed(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flip(2) + x


class Transposed(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(0, 1) + x.mT


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 0.75


CONVOLUTION = Case(
    "planted/convolution",
    lambda: (Sequential(Conv2d(3, 8, 3, padding=1), ReLU()), (torch.randn(1, 3, 9, 9),)),
)
LINEAR = Case("planted/linear", lambda: (Linear(16, 8), (torch.randn(4, 16),)))
DIFFERENCE = Case(
    "planted/difference", lambda: (Difference(), (torch.randn(5, 7), torch.randn(5, 7)))
)
REVERSED = Case("planted/reversed", lambda: (Reversed(), (torch.randn(4, 4, 4),)))
TRANSPOSED = Case("planted/transposed", lambda: (Transposed(), (torch.randn(4, 4, 4),)))
SCALED = Case("planted/scaled", lambda: (Scaled(), (torch.randn(4, 16),)))
SIGMOID = Case("planted/sigmoid", lambda: (Sigmoid(), (torch.randn(4, 16),)))


def _swap_channels(stored: numpy.ndarray) -> numpy.ndarray:
    return stored[[1, 0, *range(2, len(stored))]]


FAULTS: dict[str, tuple[Case, str, str, Fault]] = {
    "weights scaled by 1 %": (
        CONVOLUTION, "vgf:fp", "CONV2D",
        change_constant(1, "<f4", lambda w: w * numpy.float32(1.01)),
    ),
    "weights mirrored": (
        CONVOLUTION, "vgf:fp", "CONV2D", change_constant(1, "<f4", lambda w: w[:, :, ::-1]),
    ),
    "swapped channels": (
        CONVOLUTION, "vgf:fp", "CONV2D", change_constant(1, "<f4", _swap_channels),
    ),
    "dropped bias": (CONVOLUTION, "vgf:fp", "CONV2D", change_constant(2, "<f4", lambda b: b * 0)),
    "shifted bias": (
        CONVOLUTION, "vgf:fp", "CONV2D", change_constant(2, "<f4", lambda b: numpy.roll(b, 1)),
    ),
    "padding on one side": (CONVOLUTION, "vgf:fp", "CONV2D", planting.change_padding),
    "swapped inputs": (DIFFERENCE, "vgf:fp", "SUB", planting.swap_inputs),
    "wrong axis": (REVERSED, "vgf:fp", "REVERSE", planting.change_axis),
    "wrong permutation": (TRANSPOSED, "vgf:fp", "TRANSPOSE", planting.change_order),
    "wrong factor": (
        SCALED, "vgf:fp", "MUL", change_constant(1, "<f4", lambda f: f * numpy.float32(1.0001)),
    ),
    "integer: wrong weights": (
        LINEAR, "vgf:int", "CONV2D", change_constant(1, "<i1", _swap_channels),
    ),
    "integer: dropped bias": (
        LINEAR, "vgf:int", "CONV2D", change_constant(2, "<i4", lambda b: b * 0),
    ),
    "integer: zero point of the input": (
        LINEAR, "vgf:int", "CONV2D", change_constant(3, "<i1", lambda z: z + 8),
    ),
    "integer: scale of the output": (
        LINEAR, "vgf:int", "RESCALE", change_constant(1, "<i4", lambda m: m // 20 * 19),
    ),
    "integer: scale of a channel": (
        LINEAR, "vgf:int", "RESCALE",
        change_constant(1, "<i4", lambda m: [*m[:3], m[3] // 10 * 9, *m[4:]]),
    ),
    "integer: zero point of the output": (
        LINEAR, "vgf:int", "RESCALE", change_constant(4, "<i1", lambda z: z + 4),
    ),
    "integer: shifted table": (
        SIGMOID, "vgf:int", "TABLE", change_constant(1, "<i1", lambda t: numpy.roll(t, 4)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_red(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, target, operator, fault = FAULTS[name]
    changed = planting.plant(monkeypatch, operator, fault)
    cell = run_cell(case, target)
    assert changed == [operator], "the fault was not planted"
    assert cell.status is Status.MISMATCH, f"{cell.status} {cell.error}"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("case", "target"), sorted({(case, target) for case, target, _, _ in FAULTS.values()}, key=str)
)
def test_without_a_fault_it_is_green(case: Case, target: str, seed: int) -> None:
    cell = run_cell(case, target, seed=seed)
    assert cell.status is Status.PASSED, cell.error
    assert (cell.runtime, cell.delegation.delegates) == ("reference", 1)
