"""The dependencies found by parsing include every file that a cell really imports."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import harness
from harness.model import registry
from harness.session.result_cache.dependencies import Sources
from harness.session.result_cache.imports import read_imports

ROOT = Path(harness.__file__).parents[1]

# Imports each suite in a process forked from one that has torch, and prints the new modules.
LOADED = """
import importlib, json, os, sys
import torch, executorch.exir

def loaded(root):
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return sorted(file for file in files if file and file.startswith(root))

root, *names = sys.argv[1:]
found = {}
for name in names:
    read, write = os.pipe()
    if os.fork() == 0:
        os.close(read)
        try:
            importlib.import_module(name)
            package = name.rpartition(".")[0]
            try:
                importlib.import_module(f"{package}.limitations")
            except ModuleNotFoundError:
                pass
            answer = json.dumps(loaded(root))
        except BaseException as error:
            answer = json.dumps(repr(error))
        with os.fdopen(write, "w") as file:
            file.write(answer)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        found[name] = json.load(file)
    os.wait()
print(json.dumps(found))
"""


def suites() -> dict[str, Path]:
    from harness.session.discovery import find_suite_files

    files = find_suite_files(ROOT / "suites")
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in files}


@pytest.fixture(scope="module")
def sources() -> Sources:
    return Sources([ROOT / "suites"], ROOT)


def imported(names: list[str]) -> dict[str, list[str]]:
    command = [sys.executable, "-W", "ignore", "-c", LOADED, str(ROOT), *names]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    found: dict[str, list[str]] = json.loads(ran.stdout)
    return found


@pytest.mark.nightly
def test_every_file_that_a_suite_really_imports_is_found(sources: Sources) -> None:
    files = suites()
    assert len(files) > 40
    trees = tuple(f"{ROOT / tree}{os.sep}" for tree in ("suites", "backends", "harness"))
    for name, loaded in imported(list(files)).items():
        assert isinstance(loaded, list), f"{name}: {loaded}"
        theirs = {Path(file) for file in loaded if file.startswith(trees)}
        assert files[name] in theirs
        # The registry imports the package of backends; a cell's own has it.
        there = sources.find_cell_files(files[name], "null")
        missing = theirs - there
        assert not missing, f"{name} imports {sorted(map(str, missing))}"


def test_a_backends_sources_are_its_own(sources: Sources) -> None:
    mlx, metal = sources.find_backend_files("mlx"), sources.find_backend_files("metal")
    kernel = ROOT / "backends" / "mlx" / "execution" / "kernels" / "linear.py"
    assert kernel in mlx
    assert kernel not in metal
    assert not any("tests" in path.parts for path in mlx | metal)
    for name in registry.BUILT_IN:
        assert sources.find_backend_files(name)


def test_the_core_consists_of_modules_that_run_cells(sources: Sources) -> None:
    names = {path.relative_to(ROOT / "harness").as_posix() for path in sources.core}
    assert "numerics/compare.py" in names
    assert "pipeline/runner.py" in names
    assert "session/run_one.py" in names
    for aside in (
        "cli/run_commands.py",
        "cluster/client.py",
        "pytest_plugin/progress.py",
        "session/result_cache/cache_key.py",
    ):
        assert aside not in names


def write(folder: Path, **files: str) -> Sources:
    package = folder / "suites"
    package.mkdir()
    (package / "__init__.py").touch()
    for name, text in files.items():
        (package / f"{name}.py").write_text(text)
    return Sources([package], folder)


def test_imports_are_followed_anywhere_in_a_module(tmp_path: Path) -> None:
    found = write(
        tmp_path,
        a="from suites import b\ndef late():\n    from . import c\n",
        b="import suites.d as other\n",
        c="from suites.e import thing\n",
        d="",
        e="thing = 1\n",
        f="",
    ).find_suite_files(tmp_path / "suites" / "a.py")
    assert {path.stem for path in found} == {"__init__", "a", "b", "c", "d", "e"}


@pytest.mark.parametrize(
    "text",
    [
        "import importlib\nimportlib.import_module(chosen)",
        "from importlib import import_module as get\nget(chosen)",
        "__import__(chosen)",
        "import runpy\nrunpy.run_path(chosen)",
        "import importlib.util as u\nu.spec_from_file_location('a', chosen)",
    ],
)
def test_an_import_by_a_computed_name_depends_on_all_modules(tmp_path: Path, text: str) -> None:
    sources = write(tmp_path, a=f"chosen = 'b'\n{text}\n", b="")
    assert tmp_path / "suites" / "b.py" in sources.find_suite_files(tmp_path / "suites" / "a.py")


def test_an_import_by_a_literal_name_is_followed(tmp_path: Path) -> None:
    text = "import importlib\nimportlib.import_module('suites.b')\n"
    sources = write(tmp_path, a=text, b="", c="")
    names = {path.stem for path in sources.find_suite_files(tmp_path / "suites" / "a.py")}
    assert names == {"__init__", "a", "b"}


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("from harness import check", "checking/check.py"),
        ("from harness.backend_api import Specimen", "contract/specimens.py"),
        ("from harness import Specimen", "contract/specimens.py"),
    ],
)
def test_a_public_name_counts_as_its_module(text: str, module: str, tmp_path: Path) -> None:
    suite = tmp_path / "suite.py"
    suite.write_text(text + "\nCASES = []\n")
    found = Sources([tmp_path], tmp_path).find_cell_files(suite, "null")
    assert ROOT / "harness" / module in found
    suite.write_text("from harness import Case\nCASES = []\n")
    assert ROOT / "harness" / module not in Sources([tmp_path], tmp_path).find_cell_files(
        suite, "null"
    )


def test_data_files_beside_a_module_count(tmp_path: Path) -> None:
    sources = write(tmp_path, a="")
    data = tmp_path / "suites" / "samples.json"
    data.write_text("[]")
    assert data in sources.find_suite_files(tmp_path / "suites" / "a.py")


def test_a_file_that_does_not_parse_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import b\ndef (")
    assert read_imports(tmp_path / "a.py").wanted == ()
