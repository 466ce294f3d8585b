"""What the backend says where OpenVINO is missing."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from backends.openvino import library
from backends.openvino.backend import Openvino
from harness import Case, Status, run_cell

_ROOT = Path(__file__).resolve().parents[3]


def test_importing_the_backend_imports_neither_torch_nor_openvino() -> None:
    code = (
        "import sys, backends.openvino; "
        "print(sorted({'torch', 'openvino', 'nncf', 'executorch'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=_ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_missing_packages_are_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    state = Openvino().availability()
    assert not state.available
    assert not state.can_lower
    assert state.reason == (
        "openvino and nncf not installed; pip install 'executorch-conform[openvino]'"
    )


def test_a_library_of_the_user_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENVINO_LIB_PATH", "/nowhere/libopenvino_c.so")
    assert library.find_library() == Path("/nowhere/libopenvino_c.so")
    if not library.find_missing_packages():
        state = Openvino().availability()
        assert not state.available
        assert state.can_lower
        assert "/nowhere/libopenvino_c.so does not exist" in state.reason


def test_a_cell_is_unavailable_without_the_package() -> None:
    if not library.find_missing_packages():
        pytest.skip("OpenVINO is installed")
    import torch

    case = Case("linear", lambda: (torch.nn.Linear(4, 4), (torch.randn(2, 4),)))
    for recipe in Openvino.recipes:
        cell = run_cell(case, f"openvino:{recipe}")
        assert cell.status is Status.UNAVAILABLE
        assert "executorch-conform[openvino]" in str(cell.error)
