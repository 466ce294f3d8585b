"""A module that cannot run in eager is its case's fault; the cell has its error."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from harness import Case, run_cell
from harness.errors import StageFailure
from harness.numerics import module_runs
from harness.pipeline.tester import Tester
from harness.record.cell import Cell, Status

X = torch.randn(2, 3)


def _cell(module: torch.nn.Module, target: str = "portable:fp32") -> Cell:
    return run_cell(Case.from_module("eager_run/case", module, (X,)), target)


class Raises(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no such thing")


@pytest.mark.parametrize("target", ["portable:fp32", "xnnpack:int8", "mlx:bf16", "mlx:int4"])
def test_eager_raises(target: str) -> None:
    cell = _cell(torch.nn.Sequential(torch.nn.Linear(3, 32), Raises()), target)
    if cell.status in (Status.UNSUPPORTED, Status.UNAVAILABLE):
        assert target == "mlx:int4"  # has nothing to quantize
        return
    assert (cell.status, cell.stage) == (Status.FAILED, "build")
    assert cell.error == "CaseError: the module itself cannot run: ValueError: no such thing"


def test_a_further_call_raises() -> None:
    case = Case.from_module("eager_run/call", torch.nn.Linear(3, 2), (X,), calls=[(X.T,)])
    cell = run_cell(case, "portable:fp32")
    assert (cell.status, cell.stage) == (Status.FAILED, "build")


class TrainsOnly(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training:
            raise RuntimeError("call me in training")
        return x * 2


def test_modules_for_training_only_are_refused() -> None:
    module = TrainsOnly()
    cell = _cell(module)
    assert (cell.status, cell.stage) == (Status.FAILED, "build")
    assert "runs in training mode only" in (cell.error or "")
    assert "call me in training" in (cell.error or "")
    assert module.training


class HasNoEval(torch.nn.Module):
    def train(self, mode: bool = True) -> Any:
        raise RuntimeError("I stay as I am")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def test_modules_without_eval_mode_are_reported() -> None:
    cell = _cell(HasNoEval())
    assert (cell.status, cell.stage) == (Status.FAILED, "build")
    assert cell.error == ("CaseError: the module has no eval mode: RuntimeError: I stay as I am")


@pytest.mark.filterwarnings("ignore")  # torch's own
@pytest.mark.parametrize(
    ("module", "said"),
    [
        (lambda: torch.jit.script(torch.nn.Linear(3, 2)), "the module is TorchScript"),
        (lambda: torch.nn.LazyLinear(2), "no values for weight, bias yet; call it once"),
    ],
)
def test_an_object_that_is_no_module_is_refused(module: Any, said: str) -> None:
    cell = _cell(module())
    assert (cell.status, cell.stage) == (Status.FAILED, "build")
    assert said in (cell.error or "")


def test_an_exported_program_is_accepted() -> None:
    exported = torch.export.export(torch.nn.Linear(3, 2), (X,)).module()
    assert _cell(exported).status is Status.PASSED


class HalfOnly(torch.nn.Module):
    """ATen's CPU library has this kernel for float32 only."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cdist(x, x + 1)


def test_a_dtype_that_eager_lacks_is_unsupported() -> None:
    cell = _cell(HalfOnly(), "mlx:bf16")
    if cell.status is Status.UNAVAILABLE:
        pytest.skip(str(cell.error))
    assert (cell.status, cell.stage) == (Status.UNSUPPORTED, "build")
    assert "eager PyTorch cannot run it in bfloat16" in (cell.error or "")


def test_the_tester_reports_it_at_export() -> None:
    tester = Tester(Case.from_module("eager_run/fluent", Raises(), (X,)), "portable:fp32")
    with pytest.raises(StageFailure) as caught:
        tester.export()
    assert caught.value.stage == "build"


class Changes(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.memory = torch.nn.Buffer(torch.zeros(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + self.memory
        x.mul_(2)
        self.memory.add_(1)
        return y


@pytest.mark.parametrize(("module", "expected"), [(torch.nn.ReLU(), 2), (Changes(), 3)])
def test_eager_runs_are_computed_once(
    module: torch.nn.Module, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run for the outputs, one more if state is written, and one with other random numbers,
    which must not change the outputs."""
    run, runs = module_runs._run, []

    def counted(*args: Any, **kwargs: Any) -> Any:
        runs.append(torch.get_default_dtype())
        return run(*args, **kwargs)

    monkeypatch.setattr(module_runs, "_run", counted)
    assert _cell(module).status is Status.PASSED
    assert runs.count(torch.float32) == expected
