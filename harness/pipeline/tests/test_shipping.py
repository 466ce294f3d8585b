"""Programs of a case's own exporter are executed and compared with the module.

The exporters here are written by hand, as users write them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import (
    EdgeProgramManager,
    ExecutorchProgramManager,
    to_edge_transform_and_lower,
)
from torch.export import ExportedProgram

from harness import Call, CallInputs, Case, Exporter, Tester, arguments, run_cell, trace
from harness.errors import ConflictingOptions, UsageError
from harness.pipeline.route import lower
from harness.record.cell import Cell, Status
from harness.tracing.script.write import write_script

TARGETS = ["portable:fp32", "xnnpack:fp32"]
Made = tuple[ExportedProgram, ExecutorchProgramManager]


class Net(torch.nn.Module):
    """Inputs by name, a dict of outputs, and an operator (cumsum) that no delegate takes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.second = torch.nn.Linear(16, 4)

    def forward(self, state: Mapping[str, torch.Tensor], scale: torch.Tensor) -> Any:
        hidden = torch.relu(self.first(state["x"]))
        return {"y": self.second(hidden) * scale, "sum": torch.cumsum(hidden, 1)}


def by_hand(module: torch.nn.Module, inputs: CallInputs, backend: str) -> Made:
    partitioners = {"portable": [], "xnnpack": [XnnpackPartitioner()]}
    args, kwargs = arguments(inputs)
    exported = torch.export.export(module, args, kwargs)
    edge = to_edge_transform_and_lower(exported, partitioner=partitioners[backend])
    return exported, edge.to_executorch()


def scaled(module: torch.nn.Module, inputs: CallInputs, backend: str) -> Made:
    """An exporter with a fault: one weight matrix is half a percent too large."""
    layer = module.get_submodule("second")
    assert isinstance(layer, torch.nn.Linear)
    layer.weight.mul_(1.005)
    return by_hand(module, inputs, backend)


def build() -> Any:
    return Net(), (), {"state": {"x": torch.randn(3, 8)}, "scale": torch.rand(3, 1) + 0.5}


PLAIN = Case("shipping/net", build)


def shipped(make: Any, targets: str = "portable:*|xnnpack:*") -> Case:
    return replace(PLAIN, exporter=Exporter("by hand", make, targets))


def facts(cell: Cell) -> dict[str, Any]:
    """The facts of a record that do not depend on how the program was made."""
    kept: dict[str, Any] = json.loads(cell.to_json())
    for measured in (
        "stages", "memory", "seconds", "overhead", "first_seconds", "steady_seconds"
    ):  # fmt: skip
        del kept[measured]
    return kept


@pytest.mark.parametrize("target", TARGETS)
def test_the_record_is_that_of_any_cell(target: str) -> None:
    plain, cell = run_cell(PLAIN, target), run_cell(shipped(by_hand), target)
    assert cell.status is Status.PASSED, cell.error
    assert list(cell.stages) == ["build", "ship", "serialize", "run", "reference", "compare"]
    assert facts(cell) == facts(plain)
    assert cell.delegation.undelegated_ops["aten.cumsum.default"] == 1


@pytest.mark.parametrize("target", TARGETS)
def test_a_fault_of_the_exporters_is_red(target: str) -> None:
    cell = run_cell(shipped(scaled), target)
    assert (cell.status, cell.stage) == (Status.MISMATCH, "compare")
    assert [row.problem is None for row in cell.numerics] == [False, True]  # cumsum is before it


def test_an_exporters_changes_of_the_module_stay_private() -> None:
    tester = Tester(shipped(scaled), "portable:fp32")
    before = {name: value.clone() for name, value in tester.built.module.state_dict().items()}
    lower(tester)
    after = tester.built.module.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def test_further_calls_run_on_the_same_program() -> None:
    case = replace(shipped(by_hand), calls=lambda: [build_call() for _ in range(2)])
    cell = run_cell(case, "xnnpack:fp32")
    assert cell.status is Status.PASSED, cell.error
    assert {row.call for row in cell.numerics} == {0, 1, 2}


def build_call() -> Call:
    return Call(*build()[1:])


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("tosa:fp", "by hand exports for portable:*, xnnpack:* only"),
        ("xnnpack:int8", "the recipe int8 quantizes, and by hand does not quantize"),
    ],
)
def test_a_program_without_a_backend_is_unsupported(target: str, reason: str) -> None:
    cell = run_cell(shipped(by_hand), target)
    assert (cell.status, cell.error) == (Status.UNSUPPORTED, reason)


def test_its_targets_are_the_cases() -> None:
    assert shipped(by_hand).targets == "portable:*|xnnpack:*"
    assert replace(shipped(by_hand), targets="xnnpack:fp32").targets == "xnnpack:fp32"


def _raises(module: torch.nn.Module, inputs: CallInputs, backend: str) -> Made:
    by_hand(module, inputs, backend)
    raise ValueError("no such layer")


@functools.cache
def _earlier() -> Made:
    return by_hand(*build()[:1], build_call(), "portable")


def _elsewhere(module: torch.nn.Module, inputs: CallInputs, backend: str) -> Made:
    return _earlier()


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (_raises, "ValueError: no such layer"),
        (
            _elsewhere,
            "CaseError: by hand returned an ExecutorchProgramManager that no EdgeProgramManager "
            "emitted while it ran",
        ),
    ],
)
def test_an_exporter_that_fails(make: Any, error: str) -> None:
    _earlier()  # before any exporter runs
    original = EdgeProgramManager.to_executorch
    cell = run_cell(shipped(make), "portable:fp32")
    assert (cell.status, cell.stage, cell.error) == (Status.FAILED, "ship", error)
    assert EdgeProgramManager.to_executorch is original


def test_passes_are_the_exporters_own() -> None:
    tester = Tester(shipped(by_hand), "portable:fp32", transform_passes=[])
    with pytest.raises(ConflictingOptions, match="runs its own passes"):
        tester.run_case_exporter()
    with pytest.raises(ConflictingOptions, match="has no exporter"):
        Tester(PLAIN, "portable:fp32").run_case_exporter()


def test_tracing_takes_the_exporters_program() -> None:
    assert trace(shipped(by_hand), "xnnpack:fp32").first is None
    found = trace(shipped(scaled), "xnnpack:fp32")
    assert found.problem is not None


def test_no_script_of_a_program_that_it_would_not_make(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match="is a program of by hand"):
        write_script(tmp_path / "x.py", shipped(by_hand), "xnnpack:fp32")
