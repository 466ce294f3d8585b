"""Upstream code that no longer delegates an overload turns its cell red."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.backends.arm.quantizer import quantizer_support
from executorch.backends.xnnpack.partition.config.gemm_configs import ConvolutionConfig

from harness import Case, Cell, Status, run_cell
from harness.session.discovery import load_suite
from suites.overloads import calls

_CASES = {case.name: case for case in load_suite(Path(calls.__file__)).cases}


def test_an_overload_that_arms_quantizer_does_not_annotate_is_red(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = _CASES["overloads/div.Scalar/quantized"]
    assert run_cell(case, "tosa:int").status is Status.PASSED
    patterns: dict[Any, Any] = quantizer_support.TOSA_QUANTIZER_SUPPORT_DICT
    monkeypatch.delitem(patterns, (torch.ops.aten.div.Scalar,))
    _assert_not_delegated(run_cell(case, "tosa:int"), "aten.div")


def test_a_stride_of_one_number_that_xnnpack_refuses_is_red(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = _find_convolution_with_one_stride()
    assert run_cell(case, "xnnpack:fp32").status is Status.PASSED
    original = ConvolutionConfig.check_constraints

    def altered(self: Any, node: torch.fx.Node, program: Any) -> bool:
        stride: Any = node.args[3]
        return len(stride) != 1 and original(self, node, program)

    monkeypatch.setattr(ConvolutionConfig, "check_constraints", altered)
    _assert_not_delegated(run_cell(case, "xnnpack:fp32"), "aten.convolution.default")


def _find_convolution_with_one_stride() -> Case:
    for name, case in _CASES.items():
        if name.startswith("overloads/conv2d.default/call_"):
            (call,) = case.build.calls  # type: ignore[attr-defined]
            if ", [2]" in call:
                return case
    raise LookupError


def _assert_not_delegated(cell: Cell, operator: str) -> None:
    assert (cell.status, cell.stage) == (Status.FAILED, "lower")
    assert f"not delegated: {operator}" in str(cell.error)
