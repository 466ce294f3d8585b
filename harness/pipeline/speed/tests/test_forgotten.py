"""Nothing keeps a program once its cell is done."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from executorch.exir.lowered_backend_module import LoweredBackendModule

from harness import Case, CellOptions, Status, run_cell
from harness.pipeline import speed
from harness.pipeline.shared_case_work import SharedCaseWork


class _Refused(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.unsqueeze(0) * 2


@pytest.mark.parametrize("target", ["xnnpack:fp32", "mlx:fp32", "metal:fp32", "tosa:fp"])
def test_a_lowered_partition_goes_with_its_cell(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    speed.install()
    made: list[weakref.ref[Any]] = []
    begin = LoweredBackendModule.__init__

    def noted(module: Any, *args: Any, **kwargs: Any) -> None:
        begin(module, *args, **kwargs)
        made.append(weakref.ref(module))

    monkeypatch.setattr(LoweredBackendModule, "__init__", noted)
    # XNNPACK leaves what it adds a dimension with, and says why.
    layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), _Refused())
    case = Case("forgotten/linear", lambda: (layers, (torch.ones(2, 8),)))
    cell = run_cell(case, target, options=CellOptions(shared_work=SharedCaseWork()))
    assert cell.status is Status.PASSED
    assert made
    del cell
    gc.collect()
    assert not [each for each in made if each() is not None]
