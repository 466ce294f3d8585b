"""The house: floors import downwards, nothing imports in a circle, no folder is a heap."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("harness", "backends", "suites", "reports")
WINGS = [
    folder
    for name in ("harness", "backends", "reports")
    for folder in sorted(path.parent for path in (ROOT / name).rglob("__init__.py"))
    if folder.name != "tests"
]
MODULES_A_FOLDER = 14


def folders() -> Iterator[Path]:
    for name in (*PACKAGES, "benchmarks"):
        yield from {path.parent for path in (ROOT / name).rglob("*.py")}


def test_imports_point_downwards() -> None:
    """The contracts are in pyproject.toml."""
    checked = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert " 0 broken" in checked.stdout


def test_no_module_imports_itself_in_a_circle() -> None:
    """Imports for type checkers and inside of functions included."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    assert len(graph.modules) > 300
    names = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    # Raises CycleError, which names the circle.
    list(TopologicalSorter(names).static_order())


def test_no_folder_holds_more_modules_than_a_reader_can_keep_apart() -> None:
    heaps = {
        str(folder.relative_to(ROOT)): count
        for folder in folders()
        if (count := sum(path.name != "__init__.py" for path in folder.glob("*.py")))
        > MODULES_A_FOLDER
    }
    assert not heaps


@pytest.mark.parametrize("wing", WINGS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_wing_says_what_lives_in_it(wing: Path) -> None:
    assert ast.get_docstring(ast.parse((wing / "__init__.py").read_text()))
