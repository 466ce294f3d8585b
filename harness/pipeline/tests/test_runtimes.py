"""The two runtimes of a backend are compared; backends describe their programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
import torch

from backends import portable
from harness import Case, CellOptions, Tester, run_cell
from harness.backend_api import Precision
from harness.errors import ConflictingOptions
from harness.model import registry
from harness.model.backend import Availability, CanEmulate, Execution, InspectedCell, InspectsCells
from harness.model.case import Inputs
from harness.pipeline import tester
from harness.pipeline.explain.inspection import inspect
from harness.record.cell import Delegation, Status
from harness.record.target import Target

COMPARE = CellOptions(compare_runtimes=True)

RELU = Case("test/relu", lambda: (torch.nn.ReLU(), (torch.randn(4, 4),)))


class Both:
    """Runs natively and pretends to have a delegate; its emulation is off by ``error``."""

    name = "portable"
    recipes = portable.BACKEND.recipes

    def __init__(self, native: float = 0.0, emulated: float = 0.0) -> None:
        self.native, self.emulated = native, emulated

    def availability(self) -> Availability:
        return Availability(True, runtime="native")

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        return self._off(program, calls, self.native, "native")

    def emulate(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        return self._off(program, calls, self.emulated, "emulated")

    def _off(
        self, program: bytes, calls: Sequence[Inputs], error: float, runtime: str
    ) -> Execution:
        outputs = portable.BACKEND.execute(program, calls).outputs
        return Execution([[tensor + error for tensor in call] for call in outputs], runtime)

    def inspect(self, attempt: InspectedCell) -> Iterable[str]:
        return [f"{len(attempt.lowered.data)} bytes"]


@pytest.mark.parametrize(
    ("module", "wide"), [(torch.nn.Linear(4, 4), False), (torch.nn.ReLU(), True)]
)
def test_sums_that_are_left_to_the_runtime_are_in_the_dtype(
    module: torch.nn.Module, wide: bool
) -> None:
    recipe = replace(
        portable.BACKEND.recipes["fp32"],
        dtype="bfloat16",
        precision=Precision(float32_sums=frozenset({"linear", "addmm"})),
    )
    case = Case.from_module("test/left_over", module.eval(), (torch.randn(4, 4),))
    tester = Tester(case, "portable:fp32", recipe=recipe)
    tester.export().lower().to_executorch().serialize()
    assert bool(tester.attempt.precision.float32_sums) is wide


@pytest.fixture
def delegated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that the portable backend delegates."""
    monkeypatch.setattr(
        tester, "count_delegation", lambda program, why, library: Delegation(delegates=1)
    )


@pytest.mark.usefixtures("delegated")
@pytest.mark.parametrize(
    ("native", "emulated", "error"),
    [
        (0.0, 0.0, None),
        (0.0, 1.0, "the runtimes disagree: native conforms, emulated"),
        (1.0, 0.0, "emulated conforms"),
        (1.0, 1.0, "exceed the bound"),
    ],
)
def test_runtimes_must_agree(native: float, emulated: float, error: str | None) -> None:
    cell = run_cell(RELU, "portable:fp32", backend=Both(native, emulated), options=COMPARE)
    if error is None:
        assert cell.status is Status.PASSED
        assert cell.stages["emulate"] > 0
    else:
        assert cell.status is Status.MISMATCH
        assert error in str(cell.error)


def test_the_emulation_runs_only_on_request() -> None:
    cell = run_cell(RELU, "portable:fp32", backend=Both(emulated=1.0))
    assert cell.status is Status.PASSED
    assert "emulate" not in cell.stages


def test_targets_without_two_runtimes_are_refused() -> None:
    with pytest.raises(ConflictingOptions, match="none has an emulation"):
        registry.require_two_runtimes([Target("portable", "fp32")])


def test_a_target_with_two_runtimes_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "backend", lambda name: Both())
    registry.require_two_runtimes([Target("portable", "fp32")])


def test_sections_that_a_backend_adds_to_show(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(Both(), CanEmulate)
    assert isinstance(Both(), InspectsCells)
    monkeypatch.setattr(registry, "backend", lambda name: Both())
    (line,) = inspect(RELU, Target("portable", "fp32"))
    assert line.endswith(" bytes")


def test_a_case_that_does_not_lower_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("no graph")

    monkeypatch.setattr(registry, "backend", lambda name: Both())
    (line,) = inspect(
        Case("test/broken", lambda: (Broken(), (torch.ones(1),))), Target("portable", "fp32")
    )
    assert "build: CaseError: the module itself cannot run: ValueError: no graph" in line


@pytest.mark.usefixtures("delegated")
def test_runtimes_that_draw_are_compared_by_distribution() -> None:
    class Noise(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.rand(64, 64)

    case = Case("test/noise", lambda: (Noise(), (torch.zeros(64, 64),)), random_outputs=True)
    backend = Both(emulated=1.0)
    cell = run_cell(case, "portable:fp32", backend=backend, options=COMPARE)
    assert cell.status is Status.MISMATCH
    assert "the runtimes disagree: native conforms, emulated" in str(cell.error)
