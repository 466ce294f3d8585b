"""A delegate whose float dtype differs from the program's tensor is red before it is executed."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from backends.xnnpack import listing
from harness import Case, Status, run_cell

X = torch.randn(2, 8, dtype=torch.float16)
LINEAR = Case("linear", lambda: (nn.Linear(8, 4).eval().half(), (X,)))
CONVOLUTION = Case(
    "convolution",
    lambda: (nn.Conv2d(3, 4, 3).eval().half(), (torch.randn(1, 3, 6, 6, dtype=torch.float16),)),
)


@pytest.mark.one_of(3)
@pytest.mark.parametrize("target", ["xnnpack:int8", "xnnpack:int8_dynamic", "xnnpack:fp32"])
def test_float16_on_both_sides_passes(target: str) -> None:
    assert run_cell(LINEAR, target).status is Status.PASSED


def test_an_output_of_another_dtype_is_red_and_not_executed() -> None:
    # A pass of XNNPACK drops `out_dtype` behind a convolution (docs/findings.md).
    cell = run_cell(CONVOLUTION, "xnnpack:int8")
    assert (cell.status, cell.stage) == (Status.FAILED, "lower")
    assert "output 0 of a delegate is fp32" in (cell.error or "")
    assert "run" not in cell.stages


def test_payloads_of_float32_programs_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "read_border_dtypes", lambda data: pytest.fail("it was read"))
    case = Case("linear", lambda: (nn.Linear(8, 4).eval(), (torch.randn(2, 8),)))
    assert run_cell(case, "xnnpack:fp32").status is Status.PASSED
