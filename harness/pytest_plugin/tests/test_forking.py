"""Forked workers behave like workers that were started by a command."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import execnet
import pytest

from harness.pytest_plugin.tests import sessions
from harness.pytest_plugin.workers.forked_workers import ForkedWorkers
from harness.workers import fork_server

pytestmark = pytest.mark.skipif(
    not fork_server.is_supported(), reason="workers are not forked here"
)

# As early as anything of a project runs in a worker.
LOOK = """
import json, os, pathlib, sys

if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    found = {"torch": "torch" in sys.modules, "folder": os.getcwd(), "given": os.environ["GIVEN"],
             "parent": pathlib.Path(f"/proc/{os.getppid()}/cmdline").read_text()}
    pathlib.Path(f"{worker}.json").write_text(json.dumps(found))
"""


def _found(project: Path, *options: str) -> dict[str, Any]:
    conftest = project / "conftest.py"
    conftest.write_text(LOOK + conftest.read_text())
    ended = sessions.run(project, "-n", "1", *options, env={"GIVEN": "to the session"})
    assert ended.returncode == 0, ended.stdout
    found: dict[str, Any] = json.loads((project / "gw0.json").read_text())
    assert found["folder"] == str(project)
    assert found["given"] == "to the session"
    return found


def test_a_worker_has_torch_from_the_start(tmp_path: Path) -> None:
    found = _found(sessions.new_project(tmp_path))
    assert found["torch"]
    assert "harness.workers.fork_server" in found["parent"]


@pytest.mark.nightly
def test_a_worker_is_started_anew_when_asked(tmp_path: Path) -> None:
    found = _found(sessions.new_project(tmp_path), "--fresh-workers")
    assert not found["torch"]


def test_a_forked_worker_starts_without_a_warning(tmp_path: Path) -> None:
    """It has imported the plugin before pytest could rewrite its assertions."""
    project = sessions.new_project(tmp_path)
    ended = sessions.run(project, "-n", "1", "-W", "error::pytest.PytestAssertRewriteWarning")
    assert ended.returncode == 0, ended.stdout


@pytest.fixture
def group() -> Iterator[Any]:
    made = execnet.Group(execmodel="main_thread_only")
    yield made
    made.terminate(timeout=5)


def start(group: Any, text: str = "popen", *, workers: int = 64) -> Any:
    """Start the first of some workers with the plugin's hook."""
    spec = execnet.XSpec(text)
    ForkedWorkers().pytest_xdist_setupnodes(None, [spec] * workers)  # type: ignore[arg-type]
    return group.makegateway(spec)


def test_a_message_to_a_forked_worker_comes_back(group: Any) -> None:
    channel = start(group).remote_exec(
        "import os, sys\nchannel.send((os.getpid(), channel.receive(), 'torch' in sys.modules))"
    )
    channel.send("x" * 1_000_000)
    worker, text, has_torch = channel.receive(60)
    assert text == "x" * 1_000_000
    assert worker != os.getpid()
    assert has_torch


def test_a_dead_worker_is_noticed_and_a_hanging_one_is_killed(group: Any) -> None:
    dies, hangs = start(group), start(group)
    channel = dies.remote_exec("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(EOFError):
        channel.receive(60)
    assert dies._io.wait() == -9
    hanging = hangs.remote_exec("import os, time\nchannel.send(os.getpid())\ntime.sleep(600)")
    pid = hanging.receive(60)
    began = time.monotonic()
    group.terminate(timeout=0.5)
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() - began < 30
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("workers", "is_announced", "is_forked"), [(2, False, False), (3, False, True), (1, True, True)]
)
def test_first_workers_are_forked_if_there_are_more_than_cores_or_a_server_runs(
    workers: int, is_announced: bool, is_forked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(fork_server.ADDRESS_VARIABLE, raising=False)
    if is_announced:
        fork_server.announce(os.environ)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    specs = [execnet.XSpec("popen") for _ in range(workers)]
    ForkedWorkers().pytest_xdist_setupnodes(None, specs)  # type: ignore[arg-type]
    assert {bool(spec.python) for spec in specs} == {is_forked}
    monkeypatch.delenv(fork_server.ADDRESS_VARIABLE, raising=False)


def test_another_interpreter_is_not_replaced(group: Any) -> None:
    channel = start(group, f"popen//python={sys.executable}").remote_exec(
        "import sys\nchannel.send('torch' in sys.modules)"
    )
    assert channel.receive(60) is False
