"""Modules with ``*args`` keep their dynamic sizes when they are quantized."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from harness import Case, Status, run_cell

DIM = torch.export.Dim("rows", min=2, max=6)
ROWS = {0: DIM}


class Summed(torch.nn.Module):
    def forward(self, x: torch.Tensor, *terms: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        return x + terms[0] + terms[1] + last


@pytest.mark.nightly
@pytest.mark.parametrize(
    "dynamic_shapes",
    [
        (ROWS, (ROWS, ROWS), ROWS),
        {"x": ROWS, "terms": (ROWS, ROWS), "last": ROWS},
    ],
    ids=["by position", "by name"],
)
@pytest.mark.parametrize("target", ["xnnpack:int8", "xnnpack:fp32"])
def test_dynamic_sizes_of_variadic_arguments(dynamic_shapes: Any, target: str) -> None:
    def build() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...], dict[str, torch.Tensor]]:
        return Summed(), tuple(torch.randn(3, 4, 4)), {"last": torch.randn(4, 4)}

    cell = run_cell(Case("sum/variadic", build, dynamic_shapes=dynamic_shapes), target)
    assert cell.status is Status.PASSED, cell.error
    assert len({row.call for row in cell.numerics}) > 1  # calls of other sizes ran
