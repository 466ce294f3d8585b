"""Faults in the graph that OpenVINO compiles turn a cell red, and the unchanged graph passes."""

from __future__ import annotations

from typing import Any

import pytest

from backends.openvino.tests.installed import needs_openvino
from backends.openvino.tests.planting import FAULTS, LAYERS, NETWORK, PlantedFault
from harness import Case, Status, run_cell

pytestmark = needs_openvino


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_red(fault: PlantedFault, monkeypatch: pytest.MonkeyPatch) -> None:
    from executorch.backends.openvino import preprocess

    unaltered = preprocess.openvino_compile
    changed = []

    def compile_faulty(module: Any, *arguments: Any, **options: Any) -> Any:
        changed.append(fault.change(module))
        module.recompile()
        return unaltered(module, *arguments, **options)

    monkeypatch.setattr(preprocess, "openvino_compile", compile_faulty)
    cell = run_cell(fault.case, fault.target)
    assert changed == [True]
    assert cell.status is Status.MISMATCH or (
        cell.status is Status.FAILED and cell.stage in ("lower", "run")
    ), (cell.status, cell.error)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("case", "target"),
    [(NETWORK, "openvino:fp32"), (LAYERS, "openvino:int8")],
    ids=["fp32", "int8"],
)
def test_the_unchanged_graph_passes(case: Case, target: str, seed: int) -> None:
    cell = run_cell(case, target, seed=seed)
    assert cell.status is Status.PASSED, cell.error
    assert cell.delegation.delegates == 1
    assert not cell.delegation.undelegated_nodes
