"""Altered upstream functions turn crossings red."""

from __future__ import annotations

from pathlib import Path

import pytest
from executorch.backends.arm.operator_support.index_put_support import IndexPutSupported

from harness import Status, run_cell
from harness.session.discovery import load_suite
from suites.crossings import index


def test_writing_by_index_tensors_of_different_sizes_refused_by_arm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = load_suite(Path(index.__file__)).cases
    case = next(case for case in cases if "put_three" in case.name)
    monkeypatch.setattr(IndexPutSupported, "is_node_tosa_supported", lambda *_: False)
    cell = run_cell(case, "tosa:fp")
    assert (cell.status, cell.stage) == (Status.FAILED, "lower")
    assert "not delegated: aten.index_put.default (1 instead of 0)" in str(cell.error)
