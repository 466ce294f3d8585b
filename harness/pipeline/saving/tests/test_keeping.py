"""The saved files of a cell are the executed ones, and other runtimes can execute them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file

from backends.null import SPOILED_BACKEND
from harness import Case, Cell, CellOptions, Status, UsageError, run_cell
from harness.cli import main
from harness.model.files.input_files import read_inputs
from harness.pipeline.saving.cell_folder import CellFolder

MLP = Case("mlp/plain", lambda: (torch.nn.Linear(8, 4), (torch.randn(2, 8),)))
FILES = {
    "about.json", "actual.safetensors", "bound.safetensors", "expected.safetensors",
    "inputs.0.safetensors", "program.bpte", "program.pte",
}  # fmt: skip


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x + self.count


class Numbers(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> tuple[torch.Tensor, int]:
        return x * n, n


def kept(folder: Path, case: Case, target: str = "xnnpack:fp32") -> tuple[Cell, dict[str, Any]]:
    cell = run_cell(case, target, options=CellOptions(cell_folder=CellFolder(folder)))
    return cell, json.loads((folder / "about.json").read_text())


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def conforms(folder: Path) -> bool:
    """Whether the installed runtime passes the bundle's first test case."""
    from executorch.extension.pybindings import portable_lib

    data = (folder / "program.bpte").read_bytes()
    loaded = portable_lib._load_bundled_program_from_buffer(data)
    try:
        loaded.verify_result_with_bundled_expected_output("forward", 0, 1e-4, 1e-5)
    except RuntimeError as error:
        if "verification failed" not in str(error):
            raise
        return False
    return True


def test_the_folder_of_a_cell(tmp_path: Path) -> None:
    cell, about = kept(tmp_path, MLP)
    assert cell.status is Status.PASSED
    assert names(tmp_path) == FILES
    assert (about["case"], about["target"], about["seed"]) == ("mlp/plain", "xnnpack:fp32", 0)
    assert about["missing"] == {}
    actual, expected, bound = (
        load_file(tmp_path / f"{name}.safetensors")["output0"]
        for name in ("actual", "expected", "bound")
    )
    assert actual.dtype == expected.dtype == torch.float32
    assert bound.dtype == torch.float64
    assert ((actual - expected).abs() <= bound + 1e-7).all()
    assert conforms(tmp_path)


def test_the_bundle_fails_where_the_cell_does(tmp_path: Path) -> None:
    gelu = Case("gelu/tanh", lambda: (torch.nn.GELU("tanh"), (torch.randn(64, 32),)))
    cell, _ = kept(tmp_path, gelu)
    assert cell.status is Status.MISMATCH
    assert not conforms(tmp_path)


def test_saved_files_reproduce_the_outputs(tmp_path: Path) -> None:
    case = Case(
        "state/count",
        lambda: (Counting(), (torch.randn(3),)),
        calls=lambda: [(torch.randn(3),), (torch.randn(3),)],
    )
    cell, _ = kept(tmp_path, case, target="portable:fp32")
    assert cell.status is Status.PASSED
    inputs = sorted(tmp_path.glob("inputs.*"))
    assert len(inputs) >= 3  # and one more call to observe state
    assert read_inputs(inputs[0])[0][0].shape == (3,)
    given = [text for path in inputs for text in ("--inputs", str(path))]
    again = tmp_path / "again.safetensors"
    command = ["exec", str(tmp_path / "program.pte"), *given, "--out", str(again)]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    first, second = load_file(tmp_path / "actual.safetensors"), load_file(again)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_missing_part_of_a_bundle_is_reported(tmp_path: Path) -> None:
    case = Case("some/numbers", lambda: (Numbers(), (torch.randn(3), 2)))
    _, about = kept(tmp_path, case, target="portable:fp32")
    assert "call 0 returns int at 1" in about["missing"]["program.bpte"]
    assert names(tmp_path) == (FILES - {"program.bpte", "inputs.0.safetensors"}) | {"inputs.0.pt"}


def test_a_random_case_has_no_expected_values(tmp_path: Path) -> None:
    case = Case("dropout/half", lambda: (Drawing(), (torch.randn(64, 64),)), random_outputs=True)
    _, about = kept(tmp_path, case, target="null:eager")
    assert "expected" in about["missing"]
    assert "actual.safetensors" in names(tmp_path)
    assert not {"expected.safetensors", "program.bpte"} & names(tmp_path)


class Drawing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5, training=True)


@pytest.mark.parametrize(("backend", "there"), [({}, False), ({"backend": SPOILED_BACKEND}, True)])
def test_only_red_cells_stay(tmp_path: Path, backend: Mapping[str, Any], there: bool) -> None:
    folder = tmp_path / "kept"
    options = CellOptions(cell_folder=CellFolder(folder, only_red=True))
    cell = run_cell(MLP, "null:eager", options=options, **backend)
    assert cell.status.is_red is there
    assert folder.exists() is there
    assert not there or names(folder) == FILES


def test_a_disk_that_refuses(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = tmp_path / "file" / "in"
    with pytest.raises(UsageError, match="cannot write to"):
        run_cell(MLP, "null:eager", options=CellOptions(cell_folder=CellFolder(refused)))
    folder = CellFolder(refused, for_run=True)
    cell = run_cell(MLP, "null:eager", options=CellOptions(cell_folder=folder))
    assert cell.status is Status.PASSED
