"""The int4 recipes catch wrong weights and scales, and weights that are not delegated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch.backends.xnnpack.operators.node_visitor import NodeVisitor
from executorch.backends.xnnpack.partition.config.gemm_configs import LinearConfig

from harness import Status, run_cell
from suites.quant.int4 import CASES

TARGETS = ("xnnpack:int4", "xnnpack:int4_per_channel")
BIASED = next(case for case in CASES if case.name == "int4_linear/biased")
RANDOM = next(case for case in CASES if case.name == "int4_linear/odd_rows")


def _edit_scales(
    monkeypatch: pytest.MonkeyPatch, edit: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    """Let the delegate store edited scales of weights, shape (rows, groups)."""
    original: Any = NodeVisitor.get_quant_params

    def get_quant_params(self: Any, quant_params: Any, *args: Any) -> Any:
        if quant_params.per_channel_group:
            quant_params.scale = edit(quant_params.scale.clone())
        return original(self, quant_params, *args)

    monkeypatch.setattr(NodeVisitor, "get_quant_params", get_quant_params)


def _scale_one_group(scale: torch.Tensor) -> torch.Tensor:
    scale[1, 0] *= 1.05
    return scale


def _reverse_rows(scale: torch.Tensor) -> torch.Tensor:
    return scale.flip(0)


@pytest.mark.one_of(4)
@pytest.mark.parametrize("edit", [_scale_one_group, _reverse_rows])
@pytest.mark.parametrize("case", [BIASED, RANDOM], ids=lambda case: case.name)
@pytest.mark.parametrize("target", TARGETS)
def test_a_wrong_scale_is_caught(
    target: str, case: Any, edit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _edit_scales(monkeypatch, edit)
    cell = run_cell(case, target)
    assert (cell.status, cell.stage) == (Status.MISMATCH, "compare"), cell.error


def _add_one(codes: torch.Tensor) -> torch.Tensor:
    codes[0, 5] += 1 if codes[0, 5] < 7 else -1
    return codes


@pytest.mark.one_of(4)
@pytest.mark.parametrize("target", TARGETS)
def test_a_wrong_code_is_caught(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original: Any = NodeVisitor.convert_to_qc4w

    def convert(codes: torch.Tensor) -> Any:
        return original(_add_one(codes.clone()))

    monkeypatch.setattr(NodeVisitor, "convert_to_qc4w", staticmethod(convert))
    cell = run_cell(RANDOM, target)
    assert (cell.status, cell.stage) == (Status.MISMATCH, "compare"), cell.error


@pytest.mark.one_of(4)
@pytest.mark.parametrize("target", TARGETS)
def test_a_weight_that_is_not_delegated_is_caught(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LinearConfig, "check_constraints", lambda *_: False)
    cell = run_cell(RANDOM, target)
    assert (cell.status, cell.stage) == (Status.FAILED, "lower"), cell.error


@pytest.mark.one_of(4)
@pytest.mark.parametrize("target", TARGETS)
def test_the_same_cells_pass_without_a_fault(target: str) -> None:
    for case in (BIASED, RANDOM):
        for seed in (1, 2):
            cell = run_cell(case, target, seed=seed)
            assert cell.status is Status.PASSED, cell.error
