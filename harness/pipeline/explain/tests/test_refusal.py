"""Programs that ExecuTorch supports on no target are unsupported; faults of a target stay red."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.pass_base import ExportPass

from backends import portable
from harness import Case, Limitation, run_cell
from harness.backend_api import Recipe
from harness.pipeline import cell_run
from harness.pipeline.explain import refusal
from harness.record.cell import Cell, Status

Function = Callable[..., Any]


class Applied(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


X = torch.randn(3, 4)
PORTABLE, XNNPACK = "portable:fp32", "xnnpack:fp32"
_FLOAT8 = torch.float8_e4m3fn


def _cell(function: Function, target: str = "portable:fp32", **options: Any) -> Cell:
    return run_cell(Case.from_module("refusal/case", Applied(function), (X,)), target, **options)


def _recipe(**changes: Any) -> Recipe:
    return replace(portable.BACKEND.recipes["fp32"], **changes)


@pytest.mark.one_of(6)
@pytest.mark.parametrize(
    ("target", "function", "stage", "reason"),
    [
        (PORTABLE, lambda x: x.cumprod(0), "lower", "aten.cumprod.default: not core ATen"),
        (XNNPACK, lambda x: x.cumprod(0) + 1, "lower", "aten.cumprod.default: not core ATen"),
        # Its size follows from the data: such a program lowers once.
        (PORTABLE, lambda x: x[x > 0].cumprod(0), "lower", "aten.cumprod.default: not core ATen"),
        (PORTABLE, lambda x: torch.sort(x)[0], "run", "no kernel for aten::sort.values"),
        (XNNPACK, lambda x: torch.sort(x + x)[0], "run", "no kernel for aten::sort.values"),
        (PORTABLE, lambda x: x.to(_FLOAT8).t().float(), "lower", "no tensors of float8_e4m3fn"),
    ],
)
def test_outside_of_the_contract(target: str, function: Function, stage: str, reason: str) -> None:
    cell = _cell(function, target)
    assert (cell.status, cell.stage) == (Status.UNSUPPORTED, stage)
    assert reason in (cell.error or "")
    assert cell.traceback


class ErfTo(ExportPass):
    """Adds an operator that the program did not have."""

    def __init__(self, target: Any, *more: Any) -> None:
        super().__init__()
        self.target, self.more = target, more

    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        if op == exir_ops.edge.aten.erf.default:
            return super().call_operator(self.target, (*args, *self.more), kwargs, meta)
        return super().call_operator(op, args, kwargs, meta)


@pytest.mark.parametrize(
    ("operator", "more", "stage"),
    [("cumprod", (0,), "lower"), ("angle", (), "lower")],
)
def test_an_operator_that_a_pass_brought_in_is_red(
    operator: str, more: tuple[Any, ...], stage: str
) -> None:
    target = getattr(exir_ops.edge.aten, operator).default
    recipe = _recipe(transform_passes=lambda: [ErfTo(target, *more)])
    cell = _cell(torch.erf, recipe=recipe)
    assert (cell.status, cell.stage) == (Status.FAILED, stage)


def test_a_kernel_that_only_the_target_needs_is_red() -> None:
    """The kernels of the program without a backend exist."""
    recipe = _recipe(
        transform_passes=lambda: [ErfTo(exir_ops.edge.aten.erfinv.default)],
        edge_config=_unverified,
    )
    cell = _cell(torch.erf, recipe=recipe)
    assert cell.status is Status.FAILED
    assert "erfinv" in (cell.error or "")


def _unverified() -> Any:
    from executorch.exir import EdgeCompileConfig

    return EdgeCompileConfig(_check_ir_validity=False)


def test_a_pass_that_raises_is_red_though_the_program_is_outside_of_the_contract() -> None:
    class Raises(ExportPass):
        def call(self, graph_module: Any) -> Any:
            raise ValueError("a defect")

    recipe = _recipe(transform_passes=lambda: [Raises()], edge_config=_unverified)
    cell = _cell(lambda x: torch.cumprod(x, 0), recipe=recipe)
    assert (cell.status, cell.stage) == (Status.FAILED, "lower")
    assert "a defect" in (cell.error or "")


def test_backends_with_kernels_of_their_own_run_programs_the_runtime_cannot() -> None:
    assert _cell(lambda x: torch.sort(x)[0], "null:eager").status is Status.PASSED


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    ("error", "shown_as", "asked", "ends"),
    [
        ("cumprod", Status.XFAILED, 0, Status.XFAILED),
        ("cumprod", Status.UNSUPPORTED, 0, Status.UNSUPPORTED),
        ("another", Status.XFAILED, 1, Status.UNSUPPORTED),
    ],
)
def test_a_predicted_failure_is_not_explained(
    error: str, shown_as: Status, asked: int, ends: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = []

    def noted(tester: Any, failure: Any) -> str | None:
        failures.append(failure)
        return refusal.find_refusal(tester, failure)

    monkeypatch.setattr(cell_run, "find_refusal", noted)
    entry = Limitation("*", "refusal/*", "a gap", stage="lower", error=error, shown_as=shown_as)
    cell = _cell(lambda x: x.cumprod(0), limitations=[entry])
    assert (len(failures), cell.status) == (asked, ends)
    assert (cell.limitation is None) is bool(asked)
