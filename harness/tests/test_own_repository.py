"""Follow docs/own-suite.md and docs/own-backend.md with our wheel, in a second repository and an
empty environment."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from harness.cli.new_backend.command import render_templates

ROOT = Path(__file__).parents[2]
SUITE, BACKEND = ROOT / "docs" / "own-suite.md", ROOT / "docs" / "own-backend.md"

_FILE = re.compile(r"^`([\w./]+)`(?:(?!\n\n).)*\n\n```\w+\n(.*?)^```", re.M | re.S)

nightly = pytest.mark.nightly  # an environment, and sessions in it


def _files(document: Path) -> dict[str, str]:
    """The files of a document: a block behind a paragraph that begins with a name."""
    return dict(_FILE.findall(document.read_text(encoding="utf-8")))


def _commands(document: Path) -> list[str]:
    """Return the commands of its last shell block."""
    block = re.findall(r"```sh\n(.*?)```", document.read_text(encoding="utf-8"), re.S)[-1]
    return [line.partition("#")[0].strip() for line in block.splitlines()]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create an environment with our wheel; its dependencies come from the present environment."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder / "venv", with_pip=True)
    site = next((folder / "venv" / "lib").glob("python*/site-packages"))
    # Only the path: the editable install of this checkout is not used.
    (site / "zz_dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    _install(folder, folder / "venv" / "bin")
    return folder / "venv" / "bin"


def _install(folder: Path, binaries: Path) -> None:
    """Build the wheel from a copy of this checkout and install it, without its dependencies."""
    source = folder / "source"
    ignored = shutil.ignore_patterns(".*", "runs", "build", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, source, ignore=ignored)
    subprocess.run(
        [binaries / "pip", "install", "-q", "--no-deps", str(source)], check=True, cwd=folder
    )


def _repository(document: Path, folder: Path) -> Path:
    for name, body in _files(document).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(body)
    for ours in ("harness", "reports"):  # Modules of the repository itself, not of this project.
        (folder / ours).mkdir()
        (folder / ours / "__init__.py").write_text("raise SystemExit('not ours')\n")
    return folder


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _repository(SUITE, tmp_path_factory.mktemp("suite"))


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _repository(BACKEND, tmp_path_factory.mktemp("backend"))


def _run(environment: Path, folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    name, *arguments = shlex.split(command)
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "TOX"))
    }
    kept.pop("PYTHONPATH", None)
    return subprocess.run(
        [environment / name, *arguments], cwd=folder, env=kept, capture_output=True, text=True,
        timeout=280, check=False,
    )  # fmt: skip


def _all_work(environment: Path, folder: Path, document: Path) -> dict[str, str]:
    """Return the output of each command of a document; all of them must succeed."""
    said: dict[str, str] = {}
    for command in _commands(document):
        if command.startswith("pip"):
            command += " -q --no-deps"
        if command.startswith("python -m pytest"):
            # The script reads the working directory, as the document says; -P does not.
            command = command.replace("python", "python -P", 1) + " -p harness.pytest_plugin"
        done = _run(environment, folder, command)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        said[command] = done.stdout
    return said


def _of(said: dict[str, str], *words: str) -> str:
    [found] = [text for command, text in said.items() if all(word in command for word in words)]
    return found


def test_the_page_shows_the_output_of_the_command() -> None:
    written = render_templates("mine")
    assert _files(BACKEND) == {name: text for name, text in written.items() if name != "README.md"}
    assert set(_files(SUITE)) == {
        "conftest.py", "mine/__init__.py", "mine/cases.py", "mine/limitations.py", ".ci/gate.toml",
    }  # fmt: skip


@nightly
def test_every_command_for_a_suite_works(environment: Path, suite: Path) -> None:
    said = _all_work(environment, suite, SUITE)
    run = _of(said, "conform run", "runs/after")
    assert "2 of 3 cells passed" in run
    assert "1 xfailed" in run
    page = Path(run.splitlines()[-1])
    assert page.name == "report.html"
    assert page.exists()
    assert (suite / "runs" / "after" / "cells.jsonl").read_text().count("\n") == 3
    assert "mine/linear" in _of(said, "conform list --suites")


@nightly
def test_every_command_for_a_backend_works(environment: Path, backend: Path) -> None:
    said = _all_work(environment, backend, BACKEND)
    assert re.search(r"mine:fp32\s*│\s*\d{3}", _of(said, "conform list backends"))
    assert "5 of 7 cells passed, 2 xfailed" in _of(said, "conform run", "runs/after")
    ours = backend / "runs" / "ours" / "cells.jsonl"
    cells = {
        (cell["case"], cell["target"]): cell
        for cell in map(json.loads, ours.read_text().splitlines())
    }
    assert cells["gelu/tanh", "mine:fp32"]["status"] == "xfailed"  # its limitation, in our suite
    assert cells["int_island/gelu", "mine:int8"]["status"] == "passed"  # a similar case


_TYPED = """
from pathlib import Path

import torch

from harness import Case, Cell, CellFolder, CellOptions, SharedCaseWork, Target
from harness import check, run_cell, trace

case = Case.from_module("my_linear", torch.nn.Linear(32, 64), (torch.randn(4, 32),))
folder, target = CellFolder(Path("kept")), Target.parse("xnnpack:fp32")
options = CellOptions(cell_folder=folder)
cell: Cell = run_cell(case, target, options=options)
cells: list[Cell] = check(torch.nn.ReLU(), (torch.randn(3),), targets=["xnnpack:fp32"])
bound: float = cell.numerics[0].bound
node = trace(case, "xnnpack:fp32").first
shared_work: SharedCaseWork = SharedCaseWork()
if node is not None:
    operator: str = node.op
wrong: int = cell.error
reveal_type(cell.status)
"""


@nightly
def test_the_wheel_has_types_and_no_tests(environment: Path, tmp_path: Path) -> None:
    site = next((environment.parent / "lib").glob("python*/site-packages"))
    ours = [site / name for name in ("harness", "backends", "reports", "suites")]
    assert all((package / "py.typed").exists() for package in ours)
    assert (site / "suites" / "ops" / "fallbacks.json").exists()
    files = [path for package in ours for path in package.rglob("*.py")]
    assert len(files) > 500
    assert not [path for path in files if "tests" in path.parts or path.name == "conftest.py"]
    (tmp_path / "typed.py").write_text(_TYPED)
    # No configuration: mypy would take one from a folder above.
    mypy = [sys.executable, "-m", "mypy", "-n", "0", "--strict", "--config-file="]
    mypy.append("--python-executable")
    done = subprocess.run(
        [*mypy, environment / "python", "typed.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
    )  # fmt: skip
    lines = [line.partition(": ")[2] for line in done.stdout.splitlines()]
    assert lines[:2] == [
        'error: Incompatible types in assignment (expression has type "str | None", variable has '
        'type "int")  [assignment]',
        'note: Revealed type is "harness.record.cell.Status"',
    ], done.stdout + done.stderr
    assert "Found 1 error" in done.stdout


@nightly
def test_a_fault_of_the_backend_is_red_and_its_line_runs(environment: Path, backend: Path) -> None:
    install, run = "pip install -q --no-deps .", 'conform run conform_mine --targets "mine:*"'
    _run(environment, backend, install)
    assert _run(environment, backend, f"{run} --run-dir runs/right").returncode == 0
    fault = backend / "conform_mine" / "backend.py"
    right = fault.read_text()
    spoiled = "[[x * 1.01 for x in one] for one in run_native(program, calls)]"
    fault.write_text(right.replace("run_native(program, calls)", spoiled))
    assert fault.read_text() != right
    _run(environment, backend, install)
    done = _run(environment, backend, f"{run} --run-dir runs/fault")
    assert done.returncode == 1
    assert "looks scaled by 1.01" in done.stdout
    found = re.findall(r"conform repro mine/linear@mine:fp32 .*", done.stdout)
    [line] = {each.strip() for each in found}
    assert line.endswith("--suites conform_mine")
    assert _run(environment, backend, line).returncode == 1
    gate = "conform gate --baseline runs/right runs/fault"
    assert _run(environment, backend, gate).returncode == 1


@nightly
def test_a_backend_that_breaks_makes_a_plain_run_red(environment: Path, backend: Path) -> None:
    (backend / "conform_mine" / "backend.py").write_text("import nothing_of_this_name\n")
    _run(environment, backend, "pip install -q --no-deps .")
    done = _run(environment, backend, "conform run -k bias@portable:fp32 --run-dir runs/broken")
    assert done.returncode == 1
    assert "backend mine was expected and is not available" in done.stdout


_OTHER_PROJECT = {
    "conftest.py": """
from xdist.scheduler import LoadScheduling


def pytest_addoption(parser):
    for name in ("seed", "targets", "keep", "results", "resume", "progress", "mixed", "keys"):
        parser.addoption(f"--{name}", dest=name, default="ours")


class Scheduling(LoadScheduling):
    def schedule(self):
        print("our scheduler")
        super().schedule()


def pytest_xdist_make_scheduler(config, log):
    return Scheduling(config, log)
""",
    "suites/__init__.py": "",
    "suites/cases.py": "CASES = ['none of conform']\n",
    "suites/test_it.py": """
import asyncio
import sys

import pytest


def test_options(request):
    assert request.config.getoption("seed") == "ours"


@pytest.mark.asyncio
async def test_async():
    await asyncio.sleep(0)


def test_speed(benchmark):
    assert benchmark(lambda: 1) == 1


def test_what_is_loaded():
    assert not {"harness", "backends", "reports", "torch", "executorch"} & set(sys.modules)


def test_fails():
    assert 1 == 2
""",
    "pytest.ini": """
[pytest]
asyncio_default_fixture_loop_scope = function
filterwarnings =
    error
    ignore::pytest_benchmark.logger.PytestBenchmarkWarning
""",
}


@nightly
def test_the_wheel_changes_nothing_for_another_project(tmp_path: Path) -> None:
    """Options, folder and scheduler that collide with ours; output without and with the wheel."""
    venv.create(tmp_path / "venv", with_pip=True)
    binaries = tmp_path / "venv" / "bin"
    packages = ("pytest", "pytest-xdist", "pytest-asyncio", "pytest-benchmark")
    subprocess.run([binaries / "pip", "install", "-q", *packages], check=True)
    project = tmp_path / "project"
    for name, text in _OTHER_PROJECT.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)

    def sessions() -> list[tuple[int, str]]:
        options = ("-p no:cacheprovider -v --benchmark-disable", "-p no:cacheprovider -q -n 1 -s",
                   "--help", "--markers", "--collect-only -q -p no:cacheprovider")  # fmt: skip
        ended = [_run(binaries, project, f"pytest {each}") for each in options]
        # Times, and names that pytest-benchmark derives from times.
        times = re.compile(r"in \d+\.\d+s|\d{8}_\d{6}")
        return [(each.returncode, times.sub("", each.stdout)) for each in ended]

    before = sessions()
    assert [code for code, _ in before] == [1, 1, 0, 0, 0]
    assert "4 passed" in before[0][1]
    assert "our scheduler" in before[1][1]
    _install(tmp_path, binaries)
    assert sessions() == before
