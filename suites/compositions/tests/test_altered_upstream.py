"""A fusion that loses a limit turns a program red, and the error names the chain."""

from __future__ import annotations

import pytest
from executorch.backends.xnnpack._passes.fuse_activation_pass import FuseActivationPass
from executorch.exir.dialects._ops import ops as exir_ops

from harness import Status, run_cell
from suites.compositions.pairs import CASES

_MUL = exir_ops.edge.aten.mul.Tensor


def test_a_product_that_loses_the_minimum_of_a_relu(monkeypatch: pytest.MonkeyPatch) -> None:
    find = FuseActivationPass.get_fused_activation

    def find_without_minimum(node: object) -> object:
        found = find(node)
        if found is not None and getattr(node, "target", None) is _MUL:
            found.output_min = "-inf"
        return found

    monkeypatch.setattr(FuseActivationPass, "get_fused_activation", find_without_minimum)
    case = next(case for case in CASES if case.name == "pairs/mul")
    cell = run_cell(case, "xnnpack:fp32")
    assert cell.status is Status.MISMATCH
    assert "mul_relu" in (cell.error or "")
