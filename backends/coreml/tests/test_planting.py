"""A fault in a payload turns its cell red, and a payload without a fault stays green."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from coremltools.proto import Model_pb2

from backends.coreml.payload import metadata, reader
from backends.coreml.payload.metadata import CoremlModel
from backends.coreml.payload.tests.payloads import MODEL, WEIGHTS, edit_files
from backends.coreml.tests.planting import (
    FAULTS,
    NET,
    QUANTIZED,
    STATE,
    WEIGHTS_ONLY,
    Edit,
    PlantedFault,
)
from harness import Case, Status, run_cell


def plant(monkeypatch: pytest.MonkeyPatch, edit: Edit) -> list[bytes]:
    """Let payloads be read with a change; returns a list that the changed payloads are added to."""
    changed: list[bytes] = []

    def find(data: bytes, named_data: Mapping[str, bytes | memoryview]) -> CoremlModel:
        def change(files: dict[str, bytes]) -> None:
            message = Model_pb2.Model.FromString(files[MODEL])
            weights = files.get(WEIGHTS)
            before = message.SerializeToString(deterministic=True)
            edit(message, files)
            files[MODEL] = after = message.SerializeToString(deterministic=True)
            assert after != before or files.get(WEIGHTS) != weights, "the fault changes nothing"

        changed.append(edit_files(data, change))
        return metadata.find_model(changed[-1], named_data)

    monkeypatch.setattr(reader, "find_model", find)
    return changed


@pytest.mark.one_of(7)
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_is_red(fault: PlantedFault, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = plant(monkeypatch, fault.edit)
    cell = run_cell(fault.case, f"coreml:{fault.recipe}")
    assert changed
    assert cell.status is Status.MISMATCH, f"{cell.status.value} {cell.stage}: {cell.error}"


SEEDS = (0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2)))
SAMPLES = (
    (NET, "fp32"),
    (STATE, "fp16"),
    (QUANTIZED, "int8"),
    *((WEIGHTS_ONLY, recipe) for recipe in ("int4", "int8_weights", "lut4")),
)


@pytest.mark.one_of(9)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("case", "recipe"), SAMPLES, ids=[recipe for _, recipe in SAMPLES])
def test_without_a_fault_it_is_green(case: Case, recipe: str, seed: int) -> None:
    cell = run_cell(case, f"coreml:{recipe}", seed=seed)
    assert cell.status is Status.PASSED, f"{cell.status.value} {cell.stage}: {cell.error}"
    assert cell.runtime == "emulated"
    assert cell.delegation.delegates == 1
