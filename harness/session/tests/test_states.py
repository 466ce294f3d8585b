"""Workers load the vendors' packages, and report their states to the controller."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.backend_api import list_native_backends
from harness.model import registry
from harness.pytest_plugin.tests.sessions import new_project, run
from harness.record.folder import load
from harness.record.run import BackendState
from harness.session.backend_states import VendorStates, read_states, write_states


def test_the_state_of_a_worker_is_read_back(tmp_path: Path) -> None:
    states = {"tosa": BackendState(available=False, reason="no tosa-tools", runtime="none")}
    ready = VendorStates(backends=states, slow_parts={"kept": "is not the one that was read"})
    assert read_states(tmp_path, "gw0") is None
    write_states(tmp_path, "gw0", ready)
    assert read_states(tmp_path, "gw0") == ready
    (tmp_path / "gw0.ready").write_bytes(b'{"tosa": 1}')
    assert read_states(tmp_path, "gw0") is None


def test_a_folder_that_cannot_be_written_has_no_other_effect(tmp_path: Path) -> None:
    write_states(tmp_path / "absent", "gw0", VendorStates(backends={}))
    assert read_states(tmp_path / "absent", "gw0") is None


@pytest.mark.nightly
def test_the_process_of_the_records_does_not_load_executorch(tmp_path: Path) -> None:
    project = new_project(tmp_path)
    with (project / "conftest.py").open("a") as file:
        file.write(
            "\nimport os, sys\n"
            "def pytest_unconfigure(config):\n"
            "    if 'PYTEST_XDIST_WORKER' not in os.environ:\n"
            "        print('loaded:', 'executorch' in sys.modules, file=sys.stderr)\n"
        )
    result = run(project, "-n", "1", "-k", "add/a", anew=True)
    assert result.returncode == 0, result.stdout
    assert "loaded: False" in result.stderr
    assert list_native_backends()
    here = registry.find_backend_states(
        {cell.target.partition(":")[0] for cell in load(project / "run").cells}, []
    )
    assert load(project / "run").info.backends == here


def test_a_worker_exits_without_unloading_modules() -> None:
    code = """
import atexit
atexit.register(print, "registered before")
from harness.pytest_plugin.workers.watchdog import exit_worker
class Loaded:
    def __del__(self): print("taken apart")
loaded = Loaded()
atexit.register(print, "registered last but one")
atexit.register(exit_worker)
print("over")
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "over\nregistered last but one\nregistered before\n"
