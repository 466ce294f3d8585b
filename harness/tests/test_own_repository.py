"""docs/own-suite.md as it stands: our wheel and a second repository in an empty environment."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "own-suite.md"

_FILE = re.compile(r"^`([\w./]+)`(?:(?!\n\n).)*\n\n```\w+\n(.*?)^```", re.M | re.S)

pytestmark = pytest.mark.nightly  # an environment, and sessions in it


def _files() -> dict[str, str]:
    """The files of the document: a block behind a paragraph that begins with a name."""
    text = DOCUMENT.read_text(encoding="utf-8")
    return dict(_FILE.findall(text))


def _commands() -> list[str]:
    text = DOCUMENT.read_text(encoding="utf-8")
    [block] = re.findall(r"```sh\n(.*?)```", text, re.S)
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


@pytest.fixture(scope="module")
def repository(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    for name, body in _files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(body)
    for ours in ("harness", "reports"):  # of their own, which must not be taken for ours
        (folder / ours).mkdir()
        (folder / ours / "__init__.py").write_text("raise SystemExit('not ours')\n")
    return folder


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


def test_the_document_has_the_files_that_it_speaks_of() -> None:
    assert set(_files()) == {
        "pyproject.toml", "mine/__init__.py", "mine/backend.py", "mine/cases.py",
        "mine/limitations.py", ".ci/gate.toml",
    }  # fmt: skip


def test_every_command_of_the_document_works(environment: Path, repository: Path) -> None:
    said: dict[str, str] = {}
    for command in _commands():
        if command.startswith("pip"):
            command += " -q --no-deps"
        if command.startswith("python -m pytest"):
            # It looks into the working directory, as the document says; -P does not.
            command = command.replace("python", "python -P", 1)
        done = _run(environment, repository, command)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        said[command.partition("--run-dir")[0].strip()] = done.stdout
    run = next(text for command, text in said.items() if command.startswith("conform run"))
    assert "2 of 3 cells passed" in run
    assert "1 xfailed" in run
    page = Path(run.splitlines()[-1])
    assert page.name == "report.html"
    assert page.exists()
    assert (repository / "runs" / "after" / "cells.jsonl").read_text().count("\n") == 3
    listing = next(text for command, text in said.items() if command.startswith("conform list"))
    assert "mine/linear" in listing


def test_a_fault_of_the_backend_is_red_and_its_line_runs(
    environment: Path, repository: Path
) -> None:
    fault = repository / "mine" / "backend.py"
    right = fault.read_text()
    spoiled = "[[x * 1.01 for x in one] for one in run_native(program, calls)]"
    fault.write_text(right.replace("run_native(program, calls)", spoiled))
    assert fault.read_text() != right
    _run(environment, repository, "pip install -q --no-deps .")
    done = _run(environment, repository, "conform run mine --targets mine --run-dir runs/fault")
    assert done.returncode == 1
    assert "looks scaled by 1.01" in done.stdout
    found = re.findall(r"conform repro mine/linear\S+ .*", done.stdout)
    [line] = {each.strip() for each in found}
    assert line.endswith("--suites mine")
    assert _run(environment, repository, line).returncode == 1
    gate = "conform gate --baseline runs/before runs/fault"
    assert _run(environment, repository, gate).returncode == 1


def test_a_project_without_suites_is_left_alone(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it():\n    pass\n")
    done = _run(environment, tmp_path, "python -P -m pytest -q -p no:cacheprovider")
    assert done.returncode == 0
    assert {path.name for path in tmp_path.iterdir()} <= {"test_it.py", "__pycache__"}
