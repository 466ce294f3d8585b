"""docs/own-suite.md and docs/own-backend.md as they stand: our wheel and a second repository in an
empty environment."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

from harness.cli.starting.command import rendered

ROOT = Path(__file__).parents[2]
SUITE, BACKEND = ROOT / "docs" / "own-suite.md", ROOT / "docs" / "own-backend.md"

_FILE = re.compile(r"^`([\w./]+)`(?:(?!\n\n).)*\n\n```\w+\n(.*?)^```", re.M | re.S)

nightly = pytest.mark.nightly  # an environment, and sessions in it


def _files(document: Path) -> dict[str, str]:
    """The files of a document: a block behind a paragraph that begins with a name."""
    return dict(_FILE.findall(document.read_text(encoding="utf-8")))


def _commands(document: Path) -> list[str]:
    """Those of its last block for a shell."""
    block = re.findall(r"```sh\n(.*?)```", document.read_text(encoding="utf-8"), re.S)[-1]
    return [line.partition("#")[0].strip() for line in block.splitlines()]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with our wheel; what it depends on is this one's, not installed again."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder / "venv", with_pip=True)
    site = next((folder / "venv" / "lib").glob("python*/site-packages"))
    # A path alone: the editable install of this checkout is not followed.
    (site / "zz_dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    source = folder / "source"
    ignored = shutil.ignore_patterns(".*", "runs", "build", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, source, ignore=ignored)
    python = folder / "venv" / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "--no-deps", str(source)], check=True, cwd=folder
    )
    return folder / "venv" / "bin"


def _repository(document: Path, folder: Path) -> Path:
    for name, body in _files(document).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(body)
    for ours in ("harness", "reports"):  # of their own, which must not be taken for ours
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
    """What each command of a document said; all of them must end well."""
    said: dict[str, str] = {}
    for command in _commands(document):
        if command.startswith("pip"):
            command += " -q --no-deps"
        if command.startswith("python -m pytest"):
            # It looks into the working directory, as the document says; -P does not.
            command = command.replace("python", "python -P", 1)
        done = _run(environment, folder, command)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        said[command] = done.stdout
    return said


def _of(said: dict[str, str], *words: str) -> str:
    [found] = [text for command, text in said.items() if all(word in command for word in words)]
    return found


def test_the_page_shows_what_the_command_writes() -> None:
    written = rendered("mine")
    assert _files(BACKEND) == {name: text for name, text in written.items() if name != "README.md"}
    assert set(_files(SUITE)) == {
        "mine/__init__.py", "mine/cases.py", "mine/limitations.py", ".ci/gate.toml",
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
    assert "mine/linear" in _of(said, "conform list")


@nightly
def test_every_command_for_a_backend_works(environment: Path, backend: Path) -> None:
    said = _all_work(environment, backend, BACKEND)
    assert re.search(r"mine:fp32\s*│\s*\d{3}", _of(said, "conform backends"))
    assert "5 of 7 cells passed, 2 xfailed" in _of(said, "conform run", "runs/after")
    ours = backend / "runs" / "ours" / "cells.jsonl"
    cells = {
        (cell["case"], cell["target"]): cell
        for cell in map(json.loads, ours.read_text().splitlines())
    }
    assert cells["gelu/tanh", "mine:fp32"]["status"] == "xfailed"  # its gap, in a suite of ours
    assert cells["int_island/gelu", "mine:int8"]["status"] == "passed"  # for what it is like


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


@nightly
def test_a_project_without_suites_is_left_alone(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it():\n    pass\n")
    done = _run(environment, tmp_path, "python -P -m pytest -q -p no:cacheprovider")
    assert done.returncode == 0
    assert {path.name for path in tmp_path.iterdir()} <= {"test_it.py", "__pycache__"}
