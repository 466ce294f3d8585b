"""What a cell hangs on: nothing that is imported is missing, nothing that is not is there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from harness import registry
from harness.collection.discovery import suite_files
from harness.results.imports import imports_of
from harness.results.sources import Sources
from harness.results.tests.trees import labels, sources, written

ROOT = Path(__file__).parents[3]

# Imports each suite, and says which files of the project are loaded after it.
REALITY = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
root, *names = sys.argv[1:]
def here():
    files = (getattr(each, "__file__", None) or "" for each in list(sys.modules.values()))
    return {file for file in files if file.startswith(root + "/") and "/.tox/" not in file}
found = {}
for name in names:
    for loaded in [each for each in sys.modules if each.split(".")[0] in ("suites", "backends")]:
        del sys.modules[loaded]
    importlib.import_module(name)
    limitations = name.rpartition(".")[0] + ".limitations"
    try:
        importlib.import_module(limitations)
    except ModuleNotFoundError as error:
        if error.name != limitations:
            raise
    found[name] = sorted(here())
print(json.dumps(found))
"""


def test_whatever_a_suite_really_imports_is_among_what_it_hangs_on() -> None:
    """For every suite of this project: what is loaded after importing it, and its limitations, in a
    process that forgets suites and backends before each."""
    found = Sources([ROOT / "suites"], ROOT)
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for path in suite_files(ROOT / "suites")
    }
    made = subprocess.run(
        [sys.executable, "-c", REALITY, str(ROOT), *files],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert made.returncode == 0, made.stderr
    really = json.loads(made.stdout.splitlines()[-1])
    assert len(really) > 50
    before: frozenset[Path] = frozenset()
    for name, loaded in really.items():
        # Of the harness' own the process forgets nothing: some were loaded for suites before.
        before |= {path for path in found.of_suite(files[name]) if ROOT / "harness" in path.parents}
        missed = {Path(path) for path in loaded} - found.of_cell(files[name], "null") - before
        assert not missed, name
    assert any("suites/" in path for loaded in really.values() for path in loaded)


def test_whatever_running_a_cell_imports_of_the_harness_is_among_its_core() -> None:
    script = """
import sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from harness.collection import running
from harness.collection.discovery import Suite
from harness.pipeline.siblings import Siblings
from harness.target import Target
from suites.ops.activation import CASES
suite = Suite("suites.ops.activation", Path("suites/ops/activation.py"), tuple(CASES), ())
for target in ("null:eager", "portable:fp32"):
    cell, _ = running.run(
        suite.cases[0], Target.parse(target), suite, running.Asked(), siblings=Siblings()
    )
    assert cell.status.value == "passed", cell.error
print(*(each.__file__ for each in list(sys.modules.values()) if getattr(each, "__file__", None)))
"""
    made = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    found = Sources([ROOT / "suites"], ROOT)
    loaded = {Path(path) for path in made.stdout.splitlines()[-1].split()}
    ours = {path for path in loaded if path.is_relative_to(ROOT / "harness")}
    assert len(ours) > 100
    assert ours <= found.core
    backends = found.of_backend("null") | found.of_backend("portable")
    assert {path for path in loaded if path.is_relative_to(ROOT / "backends")} <= backends


def test_a_backend_is_its_package_and_what_that_imports() -> None:
    found = Sources([ROOT / "suites"], ROOT)
    names = {name: found.of_backend(name) for name in registry.BUILT_IN}
    assert ROOT / "backends/portable.py" in names["portable"]
    assert ROOT / "backends/metal/host/include/conform/abi.h" in names["metal"]
    for name in ("portable", "xnnpack", "tosa", "null"):
        others = {path.relative_to(ROOT).parts[1] for path in names[name]} - {"__init__.py"}
        assert others <= {name, f"{name}.py"}, name
    # Metal kernels of MLX programs are run by what runs Metal's.
    assert ROOT / "backends/metal/host/toolchain.py" in names["mlx"]


def test_tests_command_lines_and_views_are_no_part_of_a_cell() -> None:
    core = {path.relative_to(ROOT / "harness").as_posix() for path in Sources([], ROOT).core}
    assert {"numerics/bounds.py", "collection/running.py", "private/torch.pyi"} <= core
    assert not any(name.startswith(("cli/", "releases/", "farm/", "results/")) for name in core)
    assert not any("tests/" in name or name.endswith("progress.py") for name in core)


CHAIN = {
    "suites/one.py": "from suites import helper\nCASES = []\n",
    "suites/two.py": "CASES = []\n",
    "suites/helper.py": "def f():\n    from .deep.inner import value\n    return value\n",
    "suites/deep/inner.py": "import library\nvalue = 1\n",
    "suites/deep/data.json": "{}",
    "suites/deep/README.md": "words",
    "suites/deep/tests/test_inner.py": "",
    "library/__init__.py": "from . import part\n",
    "library/part.py": "",
    "library/other.py": "",
    "suites/limitations/__init__.py": "from suites.limitations.ops import LIMITATIONS\n",
    "suites/limitations/ops.py": "LIMITATIONS = []\n",
    "conftest.py": 'pytest_plugins = ["harness.collection.plugin", "mine"]\n',
    "mine.py": "",
    "pytest.ini": "",
}


def test_imports_are_followed_into_functions_packages_and_libraries_beside(tmp_path: Path) -> None:
    root = written(tmp_path, CHAIN)
    found = labels(sources(root), root / "suites/one.py")
    assert found == {
        "suites/__init__.py",
        "suites/one.py",
        "suites/helper.py",
        "suites/deep/__init__.py",
        "suites/deep/inner.py",
        "suites/deep/data.json",
        "library/__init__.py",
        "library/part.py",
        "suites/limitations/__init__.py",
        "suites/limitations/ops.py",
        "conftest.py",
        "mine.py",
    }
    assert "suites/helper.py" not in labels(sources(root), root / "suites/two.py")


@pytest.mark.parametrize(
    ("text", "is_wide"),
    [
        ("import importlib\nimportlib.import_module(NAME)", True),
        ("from importlib import import_module as load\nload(NAME)", True),
        ("import importlib\nload = importlib.import_module\n", True),
        ("__import__(NAME)", True),
        ("import runpy\nrunpy.run_path(NAME)", True),
        ("import pkgutil as p\np.walk_packages(NAME)", True),
        ("from pkgutil import iter_modules", True),
        ("import importlib.util\nimportlib.util.spec_from_file_location('a', NAME)", True),
        ("import importlib.util\nimportlib.util.find_spec(NAME)", False),
        ("import importlib\nimportlib.import_module('suites.helper')", False),
        ("import importlib\nimportlib.import_module(NAME)  # imports only: executorch", False),
    ],
)
def test_an_import_by_a_name_that_is_not_in_the_text_may_reach_everything(
    tmp_path: Path, text: str, is_wide: bool
) -> None:
    root = written(tmp_path, {**CHAIN, "suites/wild.py": f"NAME = 'x'\n{text}\nCASES = []\n"})
    found = labels(sources(root), root / "suites/wild.py")
    assert ("suites/two.py" in found) is is_wide
    assert ("backends/portable.py" in found) is is_wide
    assert ("suites/helper.py" in found) is (is_wide or "suites.helper" in text)


def test_what_a_dynamic_import_is_declared_to_reach_is_followed(tmp_path: Path) -> None:
    line = "import importlib\nimportlib.import_module(N)  # imports only: suites.two, executorch\n"
    root = written(tmp_path, {**CHAIN, "suites/wild.py": line})
    found = labels(sources(root), root / "suites/wild.py")
    assert "suites/two.py" in found
    assert "suites/helper.py" not in found


def test_public_names_of_the_harness_reach_what_they_stand_for(tmp_path: Path) -> None:
    files = {
        "suites/plain.py": "from harness import Case\nCASES = []\n",
        "suites/checking.py": "from harness import check\nCASES = []\n",
    }
    root = written(tmp_path, files)
    found = sources(root)
    assert not any("checking/" in name for name in labels(found, root / "suites/plain.py"))
    assert "harness/checking/check.py" in labels(found, root / "suites/checking.py")


def test_a_digest_is_of_names_and_contents_and_not_of_the_place(tmp_path: Path) -> None:
    roots = [written(tmp_path / name, CHAIN) for name in ("here", "there")]
    digests = [
        (each := sources(root)).digest(each.of_suite(root / "suites/one.py")) for root in roots
    ]
    assert digests[0] == digests[1]
    (roots[1] / "suites/deep/data.json").write_text("[]")
    each = sources(roots[1])
    assert each.digest(each.of_suite(roots[1] / "suites/one.py")) != digests[0]


def test_what_changes_while_it_is_watched_is_named(tmp_path: Path) -> None:
    root = written(tmp_path, CHAIN)
    found = sources(root)
    found.watch()
    assert found.changed() == ""
    (root / "suites/helper.py").write_text("# other")
    assert found.changed() == "suites/helper.py"


def test_what_does_not_parse_imports_nothing(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("from x import (")
    assert imports_of(path).wanted == ()


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.integers(0, 7), st.lists(st.integers(0, 7), max_size=3, unique=True), min_size=1
    )
)
def test_what_is_found_is_what_can_be_reached(graph: dict[int, list[int]]) -> None:
    """Modules that import each other in any way, in circles as well."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as name:
        files = {
            f"suites/m{node}.py": "".join(f"from suites import m{to}\n" for to in to_)
            for node, to_ in graph.items()
        }
        root = written(Path(name).resolve(), files)
        start = min(graph)
        reached, left = set[int](), [start]
        while left:
            node = left.pop()
            if node in graph and node not in reached:
                reached.add(node)
                left += graph[node]
        expected = {"suites/__init__.py", *(f"suites/m{node}.py" for node in reached)}
        assert labels(sources(root), root / f"suites/m{start}.py") == expected
