"""The simulator that docs/own-backend.md shows executes a delegate of ours."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from torch.export import ExportedProgram

from harness import Case, Cell, Status, Target, UnsupportedProgram, backend_api, run_cell
from harness.backend_api import Availability, Precision, Recipe

PAGE = Path(__file__).parents[4] / "docs" / "own-backend.md"


class MineBackend(BackendDetails):  # type: ignore[misc]
    """Computes a sine; its payload says so."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[Any]) -> PreprocessResult:
        return PreprocessResult(processed_bytes=b"sin")


class SinePartitioner(Partitioner):  # type: ignore[misc]
    """Delegates sines."""

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        tags = {}
        for node in exported_program.graph.nodes:
            if "aten.sin" in str(node.target):
                node.meta["delegation_tag"] = node.name
                tags[node.name] = DelegationSpec("MineBackend", [])
        return PartitionResult(exported_program, tags)


class Base:
    name = "mine"
    recipes = {"fp32": Recipe("fp32", Precision(), partitioners=lambda: [SinePartitioner()])}

    def availability(self) -> Availability:
        return Availability(True, runtime="emulated")


def run(function: Callable[[Any], Any], x: torch.Tensor) -> Cell:
    """Run -sin(x) on the backend of the page, with a simulator that computes a function."""

    class Simulator:
        inputs = 1

        def __init__(self, data: bytes) -> None:
            assert data == b"sin"

        def run(self, arrays: list[Any]) -> list[Any]:
            return [function(array) for array in arrays]

    class Module(torch.nn.Module):
        def forward(self, given: torch.Tensor) -> torch.Tensor:
            return -torch.sin(given)

    [block] = re.findall(r"```python\n( {4}delegate = .*?)```", PAGE.read_text("utf-8"), re.S)
    names = {name: getattr(backend_api, name) for name in backend_api.__all__}
    names |= {"Base": Base, "Simulator": Simulator}
    exec(f"class Simulated(Base):\n{block}", names)
    case = Case("sine", lambda: (Module(), (x,)))
    return run_cell(case, Target("mine", "fp32"), backend=names["Simulated"]())


IMAGE = torch.linspace(-2, 2, 24).reshape(1, 2, 3, 4)


@pytest.mark.parametrize("x", [IMAGE, IMAGE.to(memory_format=torch.channels_last)])
def test_it_computes_what_the_payload_says(x: torch.Tensor) -> None:
    cell = run(numpy.sin, x)
    assert (cell.status, cell.runtime, cell.delegation.delegates) == (Status.PASSED, "emulated", 1)
    assert run(numpy.cos, x).status is Status.MISMATCH


def test_a_result_of_another_type_is_an_error() -> None:
    cell = run(lambda array: numpy.sin(array).astype(numpy.float64), IMAGE)
    assert (cell.status, cell.stage) == (Status.FAILED, "run")
    assert "for a planned tensor" in (cell.error or "")


def test_what_it_cannot_execute_is_unsupported() -> None:
    def refuse(_: Any) -> Any:
        raise UnsupportedProgram("the simulator has no sine")

    cell = run(refuse, IMAGE)
    assert (cell.status, cell.error) == (
        Status.UNSUPPORTED,
        "UnsupportedProgram: the simulator has no sine",
    )
