"""Real pytest sessions in projects of their own, for the tests of the plugin."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.record.cell import Status
from harness.record.folder import CELLS_FILE
from harness.record.run import Run
from harness.workers import fork_server

_SECONDS = 280.0
ROOT = Path(__file__).parents[3]

# Pytest plugins that other packages install and these sessions do not need.
_OTHERS = ("anyio", "hydra_pytest", "hypothesispytest", "kgb", "platformdirs")

# A session takes seconds: run it with one worker by default, without workers in nightly runs.
WORKERS = [pytest.param("0", marks=pytest.mark.nightly), "1"]

SUITE = """
import ctypes, os, signal, time
import torch
from harness.model.case import Case

class Add(torch.nn.Module):
    def forward(self, x):
        return x + x

class Death(Add):
    def forward(self, x):
        if os.environ.get("PYTEST_XDIST_WORKER"):
            {death}
        return x + x

def case(name, module=Add):
    return Case(name, lambda: (module(), (torch.randn(2, 3),)), tags=frozenset({{"fp32"}}))

CASES = [case("add/a"), case("add/b"), case("death/now", Death), case("add/c"), case("sub/d")]
"""
HARMLESS = "pass"
SEGFAULT = "ctypes.string_at(0)"
HANG = "time.sleep(600)"


def new_project(folder: Path) -> Path:
    """A project of its own with one small suite and the plugin."""
    (folder / "conftest.py").write_text('pytest_plugins = ["harness.pytest_plugin"]\n')
    (folder / "pytest.ini").write_text("[pytest]\nconform_suites = suites\n")
    suites = folder / "suites"
    suites.mkdir()
    (suites / "__init__.py").write_text("")
    write_suite(folder, HARMLESS)
    return folder


def write_suite(project: Path, death: str) -> None:
    (project / "suites" / "small.py").write_text(SUITE.format(death=death))


def command(
    *arguments: str,
    targets: str | None = "null:eager",
    paths: Sequence[str] = ("suites",),
    folder: str | None = "run",
    reports: bool = False,
) -> list[str]:
    chosen = [] if targets is None else ["--targets", targets]
    written = [] if folder is None else ["--run-dir", folder]
    quiet = () if reports else ("-p", "no:harness.cli.report_plugin")
    others = (part for name in _OTHERS for part in ("-p", f"no:{name}"))
    return [
        sys.executable, "-m", "pytest", *quiet, *others, *paths, *written, *chosen, *arguments
    ]  # fmt: skip


def environment(*, shared: bool = False) -> dict[str, str]:
    """Environment of a session; ``shared`` if it may fork workers from the tests' fork server."""
    # tox sets a common folder for pytest's cache: projects would share durations of their cells.
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("PYTEST_") and key != "TOX_ENV_DIR"
    }
    environ = {**kept, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    if shared:
        fork_server.announce(environ)
    return environ


def run(
    project: Path,
    *arguments: str,
    targets: str | None = "null:eager",
    paths: Sequence[str] = ("suites",),
    folder: str | None = "run",
    env: dict[str, str] | None = None,
    anew: bool = False,
    reports: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a session of a project.

    Args:
        anew: start a command instead of forking a process.
        reports: write the reports of the run as well.
    """
    asked = command(*arguments, targets=targets, paths=paths, folder=folder, reports=reports)
    environ = {**environment(), **(env or {})}
    return ended("pytest", asked[3:], project, environ, anew=anew)


def ended(
    module: str,
    arguments: Sequence[str],
    folder: Path,
    environ: Mapping[str, str],
    *,
    anew: bool = False,
    seconds: float = _SECONDS,
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m`` a module to its end; ``anew`` as a command, not in a process that was
    forked."""
    server: dict[str, str] = {}
    if not anew:
        fork_server.announce(server)
    python = [sys.executable] if anew else fork_server.python_command()
    asked = [*python, *([] if module == "-c" else ["-m"]), module, *arguments]
    return subprocess.run(
        asked, cwd=folder, env={**environ, **server}, capture_output=True, text=True,
        timeout=seconds,
        check=False,
    )  # fmt: skip


def script(code: str, *arguments: str, anew: bool = False) -> subprocess.CompletedProcess[str]:
    """Run what ``python -c`` is given in a process where torch and executorch are imported, and
    nothing of a backend's or a test's is; ``anew`` where nothing is."""
    return ended("-c", [code, *arguments], ROOT, environment(), anew=anew)


@contextmanager
def begun(project: Path, *arguments: str, after: int = 0) -> Iterator[None]:
    """A session beside the test, once it has so many records; killed with its workers at the end,
    by the signal that none can catch."""
    process = subprocess.Popen(
        command(*arguments), cwd=project, env=environment(), stdout=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    cells = project / "run" / CELLS_FILE
    deadline = time.monotonic() + 120
    try:
        while not (cells.exists() and cells.read_text().count("\n") >= after):
            assert time.monotonic() < deadline, "no record appeared"
            time.sleep(0.1)
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


OF_A_RUN = frozenset({"stages", "memory", "seconds", "overhead", "worker"})
"""Fields that differ between two records of a cell that ran twice."""


def records(run_: Run, *, but: Collection[str] = OF_A_RUN) -> dict[str, dict[str, Any]]:
    """The records of a run by cell, without some of their fields."""
    return {
        cell.id: {
            name: value for name, value in json.loads(cell.to_json()).items() if name not in but
        }
        for cell in run_.cells
    }


def outcomes(run_: Run) -> dict[str, Status]:
    return {cell.case: cell.status for cell in run_.cells}
