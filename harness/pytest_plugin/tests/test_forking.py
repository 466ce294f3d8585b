"""Forked workers behave like workers that were started by a command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import execnet
import pytest

from harness.pytest_plugin.tests import sessions
from harness.pytest_plugin.workers import fork_server

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
    assert "forkserver" in found["parent"]


def test_a_worker_is_started_anew_when_asked(tmp_path: Path) -> None:
    found = _found(sessions.new_project(tmp_path), "--fresh-workers")
    assert not found["torch"]


def test_a_forked_worker_starts_without_a_warning(tmp_path: Path) -> None:
    """It has imported the plugin before pytest could rewrite its assertions."""
    project = sessions.new_project(tmp_path)
    ended = sessions.run(project, "-n", "1", "-W", "error::pytest.PytestAssertRewriteWarning")
    assert ended.returncode == 0, ended.stdout


def _left(place: Path) -> str:
    """Code for a forked process that writes its parent's pid and whether torch is imported."""
    return (
        "import os, pathlib, sys\n"
        f"pathlib.Path({str(place)!r}).write_text(f\"{{os.getppid()}} {{'torch' in sys.modules}}\")"
    )


BELOW = """
import sys
from harness.pytest_plugin.workers import fork_server as forking

forking.PRELOADED.clear()  # of its own it wants none
raise SystemExit(forking.ForkedProcess(exec, sys.argv[1]).wait())
"""


@pytest.mark.parametrize("is_there", [True, False])
def test_a_process_below_asks_the_server_that_was_announced_as_long_as_there_is_one(
    is_there: bool, tmp_path: Path
) -> None:
    environ = dict(os.environ)
    fork_server.announce(environ)
    if not is_there:
        environ[fork_server._ANNOUNCED] = os.pathsep.join((sys.prefix, str(tmp_path / "gone")))
    assert fork_server.ForkedProcess(exec, _left(tmp_path / "ours")).wait() == 0
    command = [sys.executable, "-c", BELOW, _left(tmp_path / "theirs")]
    subprocess.run(command, env=environ, check=True)
    ours, theirs = ((tmp_path / name).read_text().split() for name in ("ours", "theirs"))
    assert ours[1] == "True"
    assert (ours == theirs) is is_there


def test_a_temporary_folder_whose_name_no_socket_may_have(tmp_path: Path) -> None:
    long = tmp_path / ("of-a-job" * 12)
    long.mkdir()
    environ = dict(os.environ, TMPDIR=str(long))
    environ.pop(fork_server._ANNOUNCED, None)
    left = tmp_path / "left"
    kept = "import os, tempfile\nassert tempfile.gettempdir() == os.environ['TMPDIR']\n"
    command = [sys.executable, "-c", BELOW, kept + _left(left)]
    subprocess.run(command, env=environ, check=True)
    assert left.exists()
    assert not list(long.iterdir())


def test_what_is_forked_ends_as_a_command_does() -> None:
    forked = fork_server.ForkedProcess(exec, "import time; time.sleep(600)")
    assert forked.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        forked.wait(0.01)
    forked.kill()
    assert forked.wait(30) == -9
    assert forked.poll() == -9
    assert fork_server.ForkedProcess(exec, "raise SystemExit(3)").wait(30) == 3


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("execnet.gateway_io.create_io", fork_server.make_create_io(0))
    made = execnet.Group(execmodel="main_thread_only")
    yield made
    made.terminate(timeout=5)


def test_what_a_worker_is_sent_comes_back(group: Any) -> None:
    channel = group.makegateway("popen").remote_exec(
        "import os\nchannel.send((os.getpid(), channel.receive()))"
    )
    channel.send("x" * 1_000_000)
    worker, text = channel.receive(30)
    assert text == "x" * 1_000_000
    assert worker != os.getpid()


def test_a_worker_that_dies_is_seen_at_once_and_one_that_hangs_is_killed(group: Any) -> None:
    dies, hangs = group.makegateway("popen"), group.makegateway("popen")
    channel = dies.remote_exec("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(EOFError):
        channel.receive(30)
    assert dies._io.wait() == -9
    hanging = hangs.remote_exec("import time\nchannel.send(1)\ntime.sleep(600)")
    assert hanging.receive(30) == 1
    began = time.monotonic()
    group.terminate(timeout=0.5)
    assert time.monotonic() - began < 30
    assert hangs._io.wait() == -9


def test_those_that_import_side_by_side_are_started_by_a_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("execnet.gateway_io.create_io", fork_server.make_create_io(1))
    group = execnet.Group(execmodel="main_thread_only")
    try:
        found = [
            group.makegateway("popen")
            .remote_exec("import sys\nchannel.send('torch' in sys.modules)")
            .receive(60)
            for _ in range(2)
        ]
    finally:
        group.terminate(timeout=5)
    assert found == [False, True]


@pytest.mark.parametrize(
    ("workers", "address", "alone"), [(2, None, 2), (3, None, 0), (1, "there", 0)]
)
def test_which_are_started_by_a_command(
    workers: int, address: str | None, alone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    server = SimpleNamespace(
        _forkserver_address=address, ensure_running=lambda: begun.append("the server")
    )
    monkeypatch.setattr(fork_server, "_server", server)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr("execnet.gateway_io.create_io", None)
    asked: list[int] = []
    monkeypatch.setattr(fork_server, "make_create_io", asked.append)
    fork_server.install(workers)
    assert asked == [alone]
    assert bool(begun) == (alone == 0)


def test_other_interpreters_are_started_as_before(group: Any) -> None:
    channel = group.makegateway(f"popen//python={sys.executable}").remote_exec(
        "import sys\nchannel.send('torch' in sys.modules)"
    )
    assert channel.receive(30) is False


def test_what_is_imported_early_starts_no_thread(group: Any) -> None:
    channel = group.makegateway("popen").remote_exec(
        "import os, threading\n"
        "named = [open(f'/proc/{os.getppid()}/task/{task}/comm').read().strip()\n"
        "         for task in os.listdir(f'/proc/{os.getppid()}/task')]\n"
        "channel.send(named)"
    )
    # OpenBLAS stops its threads before a fork and restarts them.
    assert len(channel.receive(30)) <= 1 + (os.cpu_count() or 1)
