"""A patch affects the cells that execute what it changes, and no cell if it changes no code."""

from __future__ import annotations

import difflib
import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cli.coverage.affected import _read_change
from harness.coverage.affected import AffectedCells, find_affected_cells
from harness.coverage.coverage_map import MAP_FILE, Arc, CoverageMap
from harness.coverage.patches import FileChange, Reach, find_change, read_patch
from harness.coverage.summary import CoverageSummary, ExecutedBy, FileCoverage, FunctionCoverage
from harness.coverage.vendor_code import list_vendor_files
from harness.errors import UsageError
from harness.extras.releases.affected import find_affected_backends, list_affectable_backends
from harness.record.cell import Cell, Status

OLD = '''\
"""Docs."""
import os

LIMIT = 3


def register(cls):
    return cls


@register
class Visitor:
    """Docs."""

    target = "add"

    def define(self, node):
        """Docs."""
        # comment
        def inner():
            return LIMIT
        return node + inner()

    def unused(self):
        return 0


def helper(x):
    return x * 2
'''


def make_patch(old: str, new: str, name: str = "backends/x/op.py") -> str:
    lines = difflib.unified_diff(
        old.splitlines(True), new.splitlines(True), f"a/{name}", f"b/{name}"
    )
    return "".join(lines)


def change(*edits: tuple[str, str], installed: str | None = OLD) -> FileChange:
    new = OLD
    for before, after in edits:
        assert new.count(before) == 1
        new = new.replace(before, after)
    (patched,) = read_patch(make_patch(OLD, new))
    return find_change(patched, installed)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# comment", "# another"),
        ('"""Docs."""\n        #', '"""Other."""\n        #'),
        ("import os\n", "import os\nimport sys\n"),
        ("\n\ndef helper", "\n\ndef new(x):\n    return x\n\n\ndef helper"),
        ("\n\ndef helper", "\n\nclass New:\n    size = 1\n\n    def f(self): ...\n\n\ndef helper"),
        ("return x * 2", "return  x*2"),
    ],
)
def test_nothing_is_affected_by_what_executes_nothing(before: str, after: str) -> None:
    found = change((before, after))
    assert (found.reach, found.functions) == (Reach.NONE, [])


def test_functions_are_compared_by_their_code() -> None:
    assert change(("x * 2", "x * 3")).functions == ["helper"]
    both = change(("x * 2", "x * 3"), ("node + inner", "node - inner"))
    assert both.reach is Reach.FUNCTIONS
    assert both.functions == ["Visitor.define", "helper"]
    assert change(("return LIMIT", "return LIMIT + 1")).functions == ["Visitor.define"]
    removed = change(("    def unused(self):\n        return 0\n", ""))
    assert removed.functions == ["Visitor.unused"]


def test_other_changes_reach_further() -> None:
    for before, after in (
        ("LIMIT = 3", "LIMIT = 4"),
        ('target = "add"', 'target = "sub"'),
        ("class Visitor:", "class Visitor(dict):"),
        ("    def unused", "    def added(self): ...\n\n    def unused"),
    ):
        assert change((before, after)).reach is Reach.FILE, after
    new_class = "\n\n@register\nclass Other:\n    pass\n\n\ndef helper"
    found = change(("\n\ndef helper", new_class))
    assert (found.reach, found.reason) == (Reach.AREA, "Other is new and has a decorator")
    assert change(("x * 2", "x * 3"), installed=None).reach is Reach.AREA
    for header in ("--- /dev/null\n+++ b/x.py\n@@ -0,0 +1 @@\n+LIMIT = 3\n",
                   "--- a/x.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-LIMIT = 3\n"):  # fmt: skip
        (patched,) = read_patch(header)
        assert find_change(patched, OLD).reach is Reach.FILE


def test_a_patch_of_another_version_is_applied_where_its_lines_are() -> None:
    moved = OLD.replace("LIMIT = 3", "A = 1\nB = 2\nLIMIT = 3")
    assert change(("x * 2", "x * 3"), installed=moved).functions == ["helper"]
    contained = OLD.replace("x * 2", "x * 3")
    assert change(("x * 2", "x * 3"), installed=contained).functions == ["helper"]
    other = OLD.replace("return x * 2", "return x * 5")
    found = change(("x * 2", "x * 3"), installed=other)
    assert found.reach is Reach.FILE
    assert "does not apply" in found.reason
    assert change(("def helper(x):", "def helper(x:"), installed=OLD).reach is Reach.FILE


@pytest.mark.parametrize("text", ["", "no patch", "--- a/x\n+++ b/x\n@@ -1,2 +1,9 @@\n a\n"])
def test_what_is_no_patch_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="patch"):
        read_patch(text)


NAME = "executorch/backends/xnnpack/operators/op_softmax.py"
(FILE,) = [file for file in list_vendor_files() if file.name == NAME]
SOURCE = FILE.path.read_text()
OTHER = "executorch/backends/xnnpack/operators/op_add.py"


def find_line(text: str) -> int:
    (line,) = [at for at, line in enumerate(SOURCE.splitlines(), 1) if text in line]
    return line


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[CoverageMap]:
    begin = find_line("def define_node")
    uses: dict[str, set[Arc]] = {NAME: {(-begin, begin + 10), (begin + 10, begin + 11)}}
    with CoverageMap(tmp_path / MAP_FILE, create=True) as store:
        for number in range(3):
            store.add_cell(f"softmax_{number}@xnnpack:fp32", uses)
        store.add_cell("add@xnnpack:fp32", {OTHER: {(-1, 2)}})
        store.add_cell("add@tosa:fp", {"executorch/backends/arm/process_node.py": {(-1, 2)}})
    with CoverageMap(tmp_path / MAP_FILE) as opened:
        yield opened


def select(
    recorded: CoverageMap, patch: str | list[str], *, is_once: bool = False
) -> AffectedCells:
    begin = find_line("def define_node")
    end = len(SOURCE.splitlines())
    define = FunctionCoverage(
        name="SoftmaxVisitor.define_node", line=begin, end=end, lines=9, is_once=is_once
    )
    summary = CoverageSummary(
        files=[FileCoverage(name=NAME, area="xnnpack", functions=[define])],
        cells={ExecutedBy.CONCLUSIVE: 4},
    )
    cells = [
        Cell(case=name, target="xnnpack:fp32", status=status, seconds=seconds)
        for name, status, seconds in (
            ("softmax_0", Status.PASSED, 2.0),
            ("softmax_1", Status.XFAILED, 0.1),
            ("softmax_2", Status.PASSED, 1.0),
            ("add", Status.PASSED, 1.0),
        )
    ]
    cells.append(Cell(case="add", target="tosa:fp", status=Status.PASSED, seconds=1.0))
    return find_affected_cells(patch, recorded, summary, cells, find_affected_backends)


def names(found: AffectedCells) -> list[str]:
    return [cell.id.partition("@")[0] for cell in found.cells]


def test_cells_of_a_changed_function_are_selected_best_first(recorded: CoverageMap) -> None:
    patch = make_patch(SOURCE, SOURCE.replace("node.args[1]", "node.args[-1]"), NAME[11:])
    found = select(recorded, patch)
    assert found.changes[0].functions == ["SoftmaxVisitor.define_node"]
    assert names(found) == ["softmax_2", "softmax_0", "softmax_1"]


def test_an_area_is_not_another_area(recorded: CoverageMap) -> None:
    new = "--- /dev/null\n+++ b/backends/xnnpack/operators/op_new.py\n@@ -0,0 +1 @@\n+x = 1\n"
    found = select(recorded, new)
    assert found.changes[0].reach is Reach.AREA
    assert {cell.id for cell in found.cells} == {
        "softmax_0@xnnpack:fp32", "softmax_1@xnnpack:fp32", "softmax_2@xnnpack:fp32",
        "add@xnnpack:fp32",
    }  # fmt: skip


def test_a_function_that_runs_once_can_affect_its_area(recorded: CoverageMap) -> None:
    patch = make_patch(SOURCE, SOURCE.replace("node.args[1]", "node.args[-1]"), NAME[11:])
    found = select(recorded, patch, is_once=True)
    assert "add" in names(found)
    assert found.changes[0].reach is Reach.AREA
    assert found.select_within(0.5) == found.cells[:1]
    assert len(found.select_within(3.0)) == 2


def test_files_that_are_no_lowering_code_are_named(recorded: CoverageMap) -> None:
    native = make_patch("int x;\n", "int y;\n", "backends/xnnpack/runtime/XNNCompiler.cpp")
    found = select(recorded, native + make_patch(OLD, OLD.replace("3", "4"), "docs/source/x.py"))
    assert found.others == ["backends/xnnpack/runtime/XNNCompiler.cpp", "docs/source/x.py"]
    assert found.backends == ["xnnpack"]
    assert {cell.target for cell in found.cells} == {"xnnpack:fp32"}
    assert found.changes_code
    assert not select(recorded, make_patch("# a\n", "# b\n", "docs/x.py")).changes_code
    assert not select(recorded, make_patch(SOURCE, SOURCE + "\n# end\n", NAME[11:])).changes_code


def test_whole_files_can_be_named(recorded: CoverageMap) -> None:
    found = select(recorded, [NAME[11:]])
    assert found.changes[0].reach is Reach.FILE
    assert set(names(found)) == {"softmax_0", "softmax_1", "softmax_2"}
    assert select(recorded, ["runtime/core/array_ref.h"]).backends == sorted(
        list_affectable_backends()
    )


def test_a_change_is_a_patch_revisions_or_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    patch = make_patch(OLD, OLD.replace("3", "4"))
    Path("a.patch").write_text(patch)
    assert _read_change("a.patch") == patch
    assert _read_change("backends/a.py,backends/b.cpp") == ["backends/a.py", "backends/b.cpp"]
    run = functools.partial(subprocess.run, check=True, capture_output=True)
    run(["git", "init", "-q"])
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for text in ("x = 1\n", "x = 2\n"):
        Path("code.py").write_text(text)
        run(["git", "add", "code.py"])
        run(["git", *identity, "commit", "-q", "-m", "x"])
    assert "+x = 2" in str(_read_change("HEAD~1..HEAD"))
    assert _read_change("code.py") == ["code.py"]
    for wrong in ("nonsense", "HEAD..HEAD", "absent..HEAD"):
        with pytest.raises(UsageError):
            _read_change(wrong)
