"""Code is classified by the cells that execute it, and cells are found by a place."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path

import pytest

from harness.coverage import unexecuted
from harness.coverage.coverage_map import MAP_FILE, CoverageMap
from harness.coverage.lookup import CellIndex, parse_place
from harness.coverage.summary import (
    SUMMARY_FILE,
    CoverageSummary,
    ExecutedBy,
    FunctionCoverage,
    compute_totals,
    read_summary,
)
from harness.coverage.unexecuted import load_summary, summarize
from harness.coverage.vendor_code import list_vendor_files
from harness.errors import ConformError, UsageError
from harness.record.cell import Cell, Numerics, Status
from harness.record.recorder import Recorder
from harness.record.run import RunInfo

NAME = "executorch/backends/xnnpack/operators/op_mean_dim.py"
# All files would take seconds a test.
FILES = [
    file
    for file in list_vendor_files()
    if file.name == NAME
    or file.name.endswith(("operators/op_gelu.py", "_serialize/_flatbuffer_program.py"))
]
(FILE,) = [file for file in FILES if file.name == NAME]
# The two methods of the visitor, and the lines of their statements.
METHODS = [
    node for node in ast.walk(ast.parse(FILE.path.read_text())) if isinstance(node, ast.FunctionDef)
]
INIT, DEFINE = METHODS


def cell(case: str, status: Status, share: float = 1.0) -> Cell:
    output = Numerics(
        call=0, output=0, dtype="float32", shape=[2], max_abs=0, mean_abs=0, max_ulp=0, sqnr_db=90,
        rel_fro=0, cosine=1, bound=1, bound_used=0, exceeding=0, elements=2, conclusive_share=share,
    )  # fmt: skip
    return Cell(case=case, target="xnnpack:fp32", status=status, numerics=[output])


CELLS = [
    cell("good", Status.PASSED),
    cell("constant", Status.PASSED, share=0.0),
    cell("known", Status.FAILED),
]


def enter(method: ast.FunctionDef, *lines: int) -> set[tuple[int, int]]:
    """Arcs through these lines of a method."""
    path = [-method.lineno, *lines]
    return set(itertools.pairwise(path))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(unexecuted, "list_vendor_files", lambda: FILES)
    begin = DEFINE.body[0].lineno
    with CoverageMap(tmp_path / MAP_FILE, create=True) as store:
        store.add_cell("good@xnnpack:fp32", {NAME: enter(DEFINE, begin)})
        store.add_cell("constant@xnnpack:fp32", {NAME: enter(DEFINE, begin, DEFINE.body[1].lineno)})
        store.add_cell("known@xnnpack:fp32", {NAME: enter(DEFINE, *list_lines(DEFINE)[:4])})
        store.add_once([(NAME, INIT.lineno)])
    recorder = Recorder(tmp_path, RunInfo())
    recorder.expect([CELLS[-1].id], {})
    recorder.record(CELLS[-1])
    recorder.close(0, [], complete=True)
    return tmp_path


def list_lines(method: ast.FunctionDef) -> list[int]:
    return [statement.lineno for statement in method.body]


def find(summary: CoverageSummary, name: str) -> FunctionCoverage:
    (file,) = [file for file in summary.files if file.name == NAME]
    (function,) = [each for each in file.functions if each.name.endswith(f".{name}")]
    return function


def test_lines_have_the_best_cell_that_executes_them(folder: Path) -> None:
    with CoverageMap(folder / MAP_FILE) as recorded:
        summary = summarize(recorded, CELLS)
    assert summary.cells == {
        ExecutedBy.CONCLUSIVE: 1,
        ExecutedBy.VACUOUS: 1,
        ExecutedBy.NOT_PASSED: 1,
    }
    define, lines = find(summary, "define_node"), list_lines(DEFINE)
    assert define.executed_by is ExecutedBy.CONCLUSIVE
    assert lines[0] not in [line for found in define.missing.values() for line in found]
    assert define.missing[ExecutedBy.VACUOUS] == [lines[1]]
    assert define.missing[ExecutedBy.NOT_PASSED] == lines[2:4]
    assert lines[4] in define.missing[ExecutedBy.NEVER]
    init = find(summary, "__init__")
    assert init.executed_by is ExecutedBy.ONCE
    assert init.is_once
    assert not define.is_once
    totals = compute_totals(file for file in summary.files if file.name == NAME)
    assert totals.functions[ExecutedBy.CONCLUSIVE] == totals.functions[ExecutedBy.ONCE] == 1
    assert compute_totals(summary.files).missing_branches > 0
    assert summary.areas() == ["exir", "xnnpack"]


def test_a_decorated_function_is_entered_at_its_decorator(folder: Path) -> None:
    (file,) = [file for file in FILES if file.name.endswith("_serialize/_flatbuffer_program.py")]
    decorated = next(
        node
        for node in ast.parse(file.path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.decorator_list
    )
    entry, body = decorated.decorator_list[0].lineno, decorated.body[-1].lineno
    with CoverageMap(folder / MAP_FILE, create=True) as store:
        store.add_once([(file.name, entry)])
        # Another cell calls it as well, with arguments that its cache does not have.
        store.add_cell("good@xnnpack:fp32", {file.name: {(-entry, body)}})
        summary = summarize(store, CELLS)
    (found,) = [each for each in summary.files if each.name == file.name]
    once = [each for each in found.functions if each.is_once]
    assert [each.name for each in once] == [decorated.name]
    assert once[0].executed_by is ExecutedBy.CONCLUSIVE


def test_only_cells_of_the_run_count(folder: Path) -> None:
    with CoverageMap(folder / MAP_FILE) as recorded:
        summary = summarize(recorded, [cell("known", Status.FAILED)])
    assert summary.cells == {ExecutedBy.NOT_PASSED: 1}
    assert find(summary, "define_node").executed_by is ExecutedBy.NOT_PASSED


def test_a_summary_is_written_once_and_renewed_with_the_map(folder: Path) -> None:
    load_summary(folder)
    first = (folder / SUMMARY_FILE).stat().st_mtime_ns
    assert load_summary(folder) == read_summary(folder)
    assert (folder / SUMMARY_FILE).stat().st_mtime_ns == first
    (folder / SUMMARY_FILE).write_text('{"version": 1, "files": 3}')
    assert load_summary(folder).cells, "a damaged summary is computed again"
    with CoverageMap(folder / MAP_FILE, create=True) as store:
        store.add_cell("known@xnnpack:fp32", {})
    assert ExecutedBy.NOT_PASSED not in find(load_summary(folder), "define_node").missing
    # Without its map a summary is all there is, such as beside an archived run.
    (folder / MAP_FILE).unlink()
    assert load_summary(folder) == read_summary(folder)
    (folder / SUMMARY_FILE).write_text("{")
    with pytest.raises(ConformError, match=SUMMARY_FILE):
        load_summary(folder)


def test_a_place_is_a_file_a_line_or_a_function(folder: Path) -> None:
    summary, lines = load_summary(folder), list_lines(DEFINE)
    with CoverageMap(folder / MAP_FILE) as recorded:

        def cells(place: str) -> list[str]:
            found = CellIndex(recorded).find_cells([parse_place(place, summary)])
            return sorted(name.partition("@")[0] for name in found)

        assert cells("op_mean_dim.py") == ["constant", "good", "known"]
        assert cells("op_mean_dim.py::define_node") == ["constant", "good", "known"]
        assert cells("op_mean_dim.py::__init__") == []
        assert cells(f"{NAME}:{lines[1]}") == ["constant", "known"]
        assert cells(f"operators/op_mean_dim.py:{lines[2]}-{lines[4]}") == ["known"]
    for nonsense in ("op_mean_dim", "absent.py", "op_mean_dim.py:0", "op_mean_dim.py:9-3",
                     "op_mean_dim.py::absent", "op_mean_dim.py:x"):  # fmt: skip
        with pytest.raises(UsageError):
            parse_place(nonsense, summary)
