"""Architecture: packages import downwards and without cycles; folders stay small."""

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
DOCUMENTED = [
    folder
    for name in ("harness", "backends", "reports")
    for folder in sorted(path.parent for path in (ROOT / name).rglob("__init__.py"))
    if folder.name != "tests"
]
MAX_MODULES_PER_FOLDER = 14


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


def test_no_imports_are_cyclic() -> None:
    """Imports for type checkers and inside functions count."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    assert len(graph.modules) > 300
    names = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    # Raises CycleError, which names the circle.
    list(TopologicalSorter(names).static_order())


def test_no_folder_has_more_than_14_modules() -> None:
    too_large = {
        str(folder.relative_to(ROOT)): count
        for folder in folders()
        if (count := sum(path.name != "__init__.py" for path in folder.glob("*.py")))
        > MAX_MODULES_PER_FOLDER
    }
    assert not too_large


@pytest.mark.parametrize("package", DOCUMENTED, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_package_has_a_docstring(package: Path) -> None:
    assert ast.get_docstring(ast.parse((package / "__init__.py").read_text()))


# Code for scripts without this project, and replaced functions, which are checked by digest.
OWN_PRIVATE_NAMES = (
    "harness/vendors/",
    "harness/pipeline/speed/",
    "harness/tracing/script/support_code.py",
    "backends/mlx/standalone.py",
)


def test_private_names_of_vendors_are_used_by_way_of_one_module_a_vendor() -> None:
    """ExecuTorch's backends are exempt: they are the code under test."""
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if "tests" not in path.parts
        and not str(path.relative_to(ROOT)).startswith(OWN_PRIVATE_NAMES)
        for name in private_names(ast.parse(path.read_text()))
        if not name.startswith("executorch.backends.")
    ]
    assert not found


def private_names(tree: ast.Module) -> Iterator[str]:
    """Yield private names of torch and ExecuTorch that a module imports or reaches by attribute."""
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
        elif isinstance(node, ast.Import):
            names = {each.asname or each.name: each.name for each in node.names}
            names |= {name.partition(".")[0]: name.partition(".")[0] for name in names}
        else:
            continue
        imported |= {
            name: where
            for name, where in names.items()
            if where.partition(".")[0] in ("torch", "executorch")
        }
        yield from filter(_is_private, set(names.values()) & set(imported.values()))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            root, *names = ast.unparse(node).split(".")
            if root in imported and _is_private(name := ".".join([imported[root], *names])):
                yield name


def _is_private(name: str) -> bool:
    parts = name.split(".")
    documented = name.startswith(("torch.ops.", "torch._check"))
    return not documented and any(part[0] == "_" and part[:2] != "__" for part in parts if part)


def list_classes() -> Iterator[tuple[str, str]]:
    """Names and modules of all classes, except models under test.

    A model is named for what it models, and several suites may have an ``Attention``. Classes in
    functions are seen by readers of that function alone.
    """
    for path in (path for folder in folders() for path in folder.glob("*.py")):
        module = path.relative_to(ROOT).as_posix()
        if "tests" in path.parts:
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not any(
                ast.unparse(base).endswith("nn.Module") for base in node.bases
            ):
                yield node.name, module


def test_a_class_name_has_one_meaning() -> None:
    modules: dict[str, list[str]] = {}
    for name, module in list_classes():
        modules.setdefault(name, []).append(module)
    assert len(modules) > 500
    assert not {name: found for name, found in modules.items() if len(found) > 1}


def test_a_private_name_is_found_in_any_spelling() -> None:
    text = """
import torch
import executorch.exir._serialize
from torch.utils import _pytree as pytree
from torch.nn import Linear
def f():
    import torch._dynamo
    torch._check(True)
    return torch._C._storage_Use_Count, torch.ops.aten._softmax, Linear.__init__
"""
    assert set(private_names(ast.parse(text))) == {
        "executorch.exir._serialize",
        "torch.utils._pytree",
        "torch._dynamo",
        "torch._C",
        "torch._C._storage_Use_Count",
    }
