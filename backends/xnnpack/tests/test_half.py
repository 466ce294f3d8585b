"""The float16 and bfloat16 recipes delegate, and catch wrong weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from executorch.backends.xnnpack.operators import node_visitor
from torch.nn import Conv2d, Linear

from harness import Case, Status, run_cell
from harness.model import registry
from harness.record.target import Target
from suites.build import nn_case, randn

LINEAR = nn_case("half/linear", lambda: Linear(64, 24), randn(5, 64))
CONVOLUTION = nn_case("half/convolution", lambda: Conv2d(3, 8, 3), randn(1, 3, 7, 7))
LONG = nn_case("half/long_sum", lambda: Linear(2048, 8), randn(4, 2048))

CELLS = [
    ("xnnpack:fp16", LINEAR),
    ("xnnpack:fp16", CONVOLUTION),
    ("xnnpack:fp16", LONG),
    ("xnnpack:bf16", LINEAR),
    ("xnnpack:bf16", LONG),
]
IDS = [f"{case.name}@{target}" for target, case in CELLS]


@pytest.mark.one_of(3)
@pytest.mark.parametrize(("target", "case"), CELLS, ids=IDS)
def test_a_wrong_row_of_a_weight_is_caught(
    target: str, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    original: Any = node_visitor.get_param_tensor

    def get_param_tensor(program: Any, node: Any) -> torch.Tensor | None:
        found: torch.Tensor | None = original(program, node)
        if found is None or found.dim() < 2:
            return found
        changed = found.clone()
        changed[0] *= 1.05
        return changed

    monkeypatch.setattr(node_visitor, "get_param_tensor", get_param_tensor)
    cell = run_cell(case, target)
    assert (cell.status, cell.stage) == (Status.MISMATCH, "compare"), cell.error


@pytest.mark.one_of(3)
@pytest.mark.parametrize(("target", "case"), CELLS, ids=IDS)
def test_the_same_cells_pass_delegated_without_the_fault(target: str, case: Case) -> None:
    cell = run_cell(case, target)
    assert cell.status is Status.PASSED, cell.error
    assert {row.dtype for row in cell.numerics} == {registry.recipe(Target.parse(target)).dtype}
    assert (cell.delegation.delegates, cell.delegation.undelegated_nodes) == (1, 0)
