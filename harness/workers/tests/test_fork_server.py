"""A forked Python process behaves like one that a command starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.workers import fork_server

pytestmark = pytest.mark.skipif(
    not fork_server.is_supported(), reason="processes are not forked here"
)

WHERE = "import os, sys; print(os.getppid(), 'torch' in sys.modules)"


@pytest.fixture(scope="module")
def python() -> list[str]:
    return fork_server.python_command()


def run(python: Sequence[str], *arguments: str, **given: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*python, *arguments], capture_output=True, text=True, timeout=120, check=False, **given
    )


def test_it_has_torch_and_its_own_arguments_folder_and_environment(
    python: list[str], tmp_path: Path
) -> None:
    code = (
        "import os, sys; "
        "print('torch' in sys.modules, sys.argv, os.getcwd(), os.environ['GIVEN'], "
        "sys.stdin.read(), 'HOME' in os.environ)"
    )
    environ = {"GIVEN": "this", "PATH": os.environ["PATH"]}
    ended = run(python, "-c", code, "a", "b", cwd=tmp_path, env=environ, input="text")
    assert ended.stdout.split() == ["True", "['-c',", "'a',", "'b']", str(tmp_path), "this", "text",
                                    "False"], ended.stderr  # fmt: skip


def test_a_module_of_the_folder_is_found_unless_that_is_excluded(
    python: list[str], tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text("import sys; print(__name__, sys.argv[1:])")
    assert run(python, "-m", "mine", "x", cwd=tmp_path).stdout == "__main__ ['x']\n"
    assert "No module named" in run(python, "-P", "-m", "mine", cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("raise SystemExit(3)", 3),
        ("raise SystemExit('a message')", 1),
        ("1 / 0", 1),
        ("import os; os._exit(4)", 4),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("import atexit, os; atexit.register(os._exit, 5)", 5),
        ("import threading, time, os; "
         "threading.Thread(target=lambda: (time.sleep(0.2), os._exit(6))).start()", 6),
    ],
)  # fmt: skip
def test_it_ends_as_a_command_ends(python: list[str], code: str, status: int) -> None:
    forked, commanded = run(python, "-c", code), run([sys.executable], "-c", code)
    assert forked.returncode == commanded.returncode == status
    assert forked.stderr.splitlines()[-1:] == commanded.stderr.splitlines()[-1:]


def wait_until_gone(pid: int) -> None:
    end = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_it_ends_with_its_command(python: list[str]) -> None:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    with subprocess.Popen([*python, "-c", code], stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        pid = int(command.stdout.readline())
        command.kill()
    wait_until_gone(pid)


def test_processes_that_end_at_once_do_not_disturb_others(python: list[str]) -> None:
    """Numbers of closed descriptors are used again while their last events are handled."""
    sleeping = "import time; time.sleep(600)"
    for _ in range(3):
        killed = [subprocess.Popen([*python, "-c", sleeping]) for _ in range(6)]
        ending = [
            subprocess.Popen([*python, "-c", f"raise SystemExit({code})"]) for code in range(6)
        ]
        for each in killed:
            each.kill()
        assert [each.wait(60) for each in ending] == list(range(6))
        assert [each.wait(60) for each in killed] == [-signal.SIGKILL] * 6
    assert run(python, "-c", WHERE).returncode == 0


def test_passed_descriptors_keep_their_numbers(python: list[str]) -> None:
    reading, writing = os.pipe()
    code = f"import os; os.write({writing}, b'here')"
    with os.fdopen(reading, "rb") as pipe:
        ended = subprocess.run([*python, "-c", code], pass_fds=[writing], check=False)
        os.close(writing)
        assert ended.returncode == 0
        # Neither the command nor the server holds the pipe open.
        assert pipe.read() == b"here"


BELOW = """
import os, subprocess, sys
from harness.workers import fork_server

fork_server.announce(os.environ, "json")
raise SystemExit(subprocess.run([*fork_server.python_command(), *sys.argv[1:]]).returncode)
"""


def test_a_folder_that_an_installed_file_names_is_on_the_path(tmp_path: Path) -> None:
    """An editable install is outside of the prefix; so are the packages of another environment."""
    venv.create(tmp_path / "venv", symlinks=True)
    (tmp_path / "editable").mkdir()
    (tmp_path / "editable" / "mine.py").write_text("")
    [site] = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    packages = sysconfig.get_path("purelib")
    (site / "mine.pth").write_text(f"{tmp_path / 'editable'}\n{packages}\n")
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    environ.pop(fork_server.ADDRESS_VARIABLE, None)
    python = [str(tmp_path / "venv" / "bin" / "python")]
    code = "import os, sys, mine; print(sys.path)"
    forked = run(python, "-c", BELOW, "-c", code, env=environ)
    commanded = run(python, "-c", code, env=environ)
    assert forked.stdout == commanded.stdout, forked.stderr
    assert str(tmp_path / "editable") in forked.stdout
    assert packages in forked.stdout


def test_a_process_below_uses_the_announced_server(python: list[str]) -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    fork_server.announce(environ)
    below = run([sys.executable], "-c", BELOW, "-c", WHERE, env=environ).stdout
    assert below == run(python, "-c", WHERE).stdout
    assert "True" in below


def test_where_the_server_has_ended_a_new_process_starts(python: list[str]) -> None:
    gone = [*python[:-1], "conform-no-such-server"]
    assert run(gone, "-c", "import sys; print('torch' in sys.modules)").stdout == "False\n"


def test_other_arguments_start_a_new_process(python: list[str]) -> None:
    assert run(python, "-V").stdout.startswith("Python 3")


def test_processes_end_with_the_owner_of_the_server() -> None:
    code = "import os, time; print(os.getpid(), os.getppid(), flush=True); time.sleep(600)"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environ.pop(fork_server.ADDRESS_VARIABLE, None)
    command = [sys.executable, "-c", BELOW, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as owner:
        assert owner.stdout is not None
        pid, server = map(int, owner.stdout.readline().split())
        owner.kill()
    for each in (pid, server):
        wait_until_gone(each)


def test_the_server_has_no_thread_but_those_of_openblas(python: list[str]) -> None:
    code = "import os; print(len(os.listdir(f'/proc/{os.getppid()}/task')))"
    # OpenBLAS stops its threads before a fork and restarts them.
    assert int(run(python, "-c", code).stdout) <= 1 + (os.cpu_count() or 1)
