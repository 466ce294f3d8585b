"""Expected fallback nodes: read, compared and written from a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.errors import CaseError
from harness.model import fallbacks
from harness.model.fallbacks import find_lost_delegation, read_fallbacks, update_fallbacks
from harness.record.cell import Cell, Delegation, Status

EXPECTED = {"aten.add.Tensor": 2, "delegates": 2}


def _delegation(delegates: int = 1, **left: int) -> Delegation:
    return Delegation(
        delegates=delegates,
        undelegated_ops={name.replace("__", "."): number for name, number in left.items()},
    )


@pytest.mark.parametrize(
    ("delegation", "problem"),
    [
        (_delegation(2, aten__add__Tensor=2), None),
        (_delegation(1, aten__add__Tensor=1), None),
        (_delegation(0), None),
        (_delegation(2, quantized_decomposed__quantize_per_tensor__default=3), None),
        (_delegation(2, aten__add__Tensor=3), "not delegated: aten.add.Tensor (3 instead of 2)"),
        (
            _delegation(3, aten__mul__Tensor=1),
            "not delegated: aten.mul.Tensor (1 instead of 0); 3 delegates instead of 2",
        ),
    ],
)
def test_only_more_fallback_nodes_or_delegates_are_a_problem(
    delegation: Delegation, problem: str | None
) -> None:
    assert find_lost_delegation(EXPECTED, delegation) == problem


def _cell(case: str, target: str, delegation: Delegation, program_bytes: int = 9) -> Cell:
    return Cell(
        case=case,
        target=target,
        status=Status.PASSED,
        delegation=delegation,
        program_bytes=program_bytes,
    )


FIRST = [
    _cell("a/1", "xnnpack:fp32", _delegation(0, aten__add__Tensor=1)),
    _cell("a/2", "xnnpack:fp32", _delegation(3)),
    _cell("a/1", "portable:fp32", _delegation(0, aten__add__Tensor=1)),
    _cell("b/1", "xnnpack:fp32", _delegation(0, aten__sub__Tensor=1)),
    _cell("a/3", "xnnpack:fp32", _delegation(0, aten__sub__Tensor=1), program_bytes=0),
]


def test_the_cells_of_a_run_become_the_file(tmp_path: Path) -> None:
    assert update_fallbacks(tmp_path, FIRST, ["a/1", "a/2", "a/3"])
    expected = {"xnnpack:fp32": {"a/1": {"aten.add.Tensor": 1}, "a/2": {"delegates": 3}}}
    assert read_fallbacks(tmp_path) == expected
    assert not update_fallbacks(tmp_path, FIRST, ["a/1", "a/2"])
    # A later run replaces its own cells; cases that are gone are removed.
    later = [_cell("a/1", "xnnpack:fp32", _delegation())]
    assert update_fallbacks(tmp_path, later, ["a/1", "a/2"])
    assert read_fallbacks(tmp_path) == {"xnnpack:fp32": {"a/2": {"delegates": 3}}}
    assert update_fallbacks(tmp_path, later, ["a/1"])
    assert read_fallbacks(tmp_path) == {"xnnpack:fp32": {}}


def test_an_earlier_release_than_the_files_expects_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update_fallbacks(tmp_path, FIRST, ["a/1"])
    monkeypatch.setattr(fallbacks, "is_installed_within", lambda since, until: False)
    assert read_fallbacks(tmp_path) == {}


def test_no_file_expects_nothing(tmp_path: Path) -> None:
    assert read_fallbacks(tmp_path) == {}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        json.dumps({"executorch": "1.5.1", "targets": []}),
        json.dumps({"executorch": 1, "targets": {}}),
        json.dumps({"executorch": "1.5.1", "targets": {"xnnpack:fp32": {"a": {"op": "1"}}}}),
        json.dumps({"executorch": "1.5.1", "targets": {"xnnpack:fp32": ["a"]}}),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "fallbacks.json").write_text(content)
    with pytest.raises(CaseError, match=r"fallbacks\.json .*conform list fallbacks RUN --write"):
        read_fallbacks(tmp_path)
