"""Altered upstream functions turn crossings red."""

from __future__ import annotations

import pytest
from executorch.backends.arm.operator_support.index_put_support import IndexPutSupported

from harness import Status, run_cell
from suites.crossings import index


def test_writing_by_index_tensors_of_different_sizes_refused_by_arm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [case.name for case in index.CASES if case.delegated and "put_three" in case.name]
    case = next(case for case in index.CASES if case.name in names)
    monkeypatch.setattr(IndexPutSupported, "is_node_tosa_supported", lambda *_: False)
    cell = run_cell(case, "tosa:fp")
    assert (cell.status, cell.stage) == (Status.FAILED, "lower")
    assert "aten.index_put.default" in str(cell.error)
