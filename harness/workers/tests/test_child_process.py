"""A warm child: what it answers, and what becomes of it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import ProgramError
from harness.workers.child_process import ChildProcess

MISBEHAVING = Path(__file__).with_name("misbehaving.py")
SECONDS = 60.0


@pytest.fixture
def child() -> Iterator[ChildProcess]:
    child = ChildProcess(MISBEHAVING, "the child", limit_memory=True)
    yield child
    child.close()


def is_gone(pid: int) -> bool:
    """Whether there is no such process, not even one that waits to be reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("size", [0, 1, 5 << 20])
def test_it_answers_and_stays(child: ChildProcess, size: int) -> None:
    data = os.urandom(size)
    assert child.ask(b"echo " + data, SECONDS) == data
    pid = child.pid
    assert child.ask(b"echo " + data, SECONDS) == data
    assert child.pid == pid
    assert pid is not None
    child.close()
    assert is_gone(pid)


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (b"segfault", "the child was ended by SIGSEGV"),
        (b"abort", "the child was ended by SIGABRT"),
        (b"exit 3", "the child ended with exit code 3"),
    ],
)
def test_its_end_is_an_error_and_the_next_request_starts_another(
    child: ChildProcess, request_: bytes, problem: str
) -> None:
    child.ask(b"echo", SECONDS)
    first = child.pid
    with pytest.raises(ProgramError, match=problem):
        child.ask(request_, SECONDS)
    assert first is not None
    assert is_gone(first)
    assert child.ask(b"echo again", SECONDS) == b"again"
    assert child.pid != first


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (b"refuse no such graph", "^no such graph$"),
        (b"raise what", "^ValueError: what$"),
        (b"allocate", "MemoryError"),
    ],
)
def test_an_exception_refuses_the_request(
    child: ChildProcess, request_: bytes, problem: str
) -> None:
    child.ask(b"echo", SECONDS)
    pid = child.pid
    with pytest.raises(ProgramError, match=problem):
        child.ask(request_, SECONDS)
    assert child.ask(b"echo", SECONDS) == b""
    assert child.pid == pid


def test_time_is_limited(child: ChildProcess) -> None:
    child.ask(b"echo", SECONDS)
    pid, start = child.pid, time.monotonic()
    with pytest.raises(ProgramError, match=r"the child did not answer within 0\.5 s"):
        child.ask(b"hang 60", 0.5)
    assert time.monotonic() - start < 30
    assert pid is not None
    assert is_gone(pid)


def test_what_it_prints_is_no_answer(child: ChildProcess) -> None:
    assert child.ask(b"print", SECONDS) == b"still here"


def test_a_file_that_cannot_be_imported_is_an_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit(7)")
    with pytest.raises(ProgramError, match="does not start: it ended with exit code 7"):
        ChildProcess(broken, "the child").ask(b"", SECONDS)


def test_threads_share_one(child: ChildProcess) -> None:
    wrong: list[str] = []

    def ask(number: int) -> None:
        for turn in range(20):
            text = f"{number}.{turn}" * 1000
            if child.ask(b"echo " + text.encode(), SECONDS) != text.encode():
                wrong.append(text)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_leaving_does_not_wait_for_an_answer() -> None:
    """A thread that nobody joins waits for a child that hangs."""
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", LEAVING, str(MISBEHAVING)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    assert time.monotonic() - start < 120
    assert _has_ended(int(done.stdout))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a busy child ends with its call")
@pytest.mark.parametrize("request_", ["echo", "hang 120"])
def test_it_does_not_outlive_its_parent(request_: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(MISBEHAVING), request_],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    with parent.stdout:
        pid = int(parent.stdout.readline())
    time.sleep(0.5)  # the child is busy by now
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 30
    while not _has_ended(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _has_ended(pid)


LEAVING = """
import sys, threading, time
from pathlib import Path
from harness.workers.child_process import ChildProcess

child = ChildProcess(Path(sys.argv[1]), "the child")
child.ask(b"echo", 60)
print(child.pid, flush=True)
threading.Thread(target=child.ask, args=(b"hang 300", 600), daemon=True).start()
time.sleep(1)
"""

PARENT = """
import sys, threading, time
from pathlib import Path
from harness.workers.child_process import ChildProcess

child = ChildProcess(Path(sys.argv[1]), "the child")
child.ask(b"echo", 60)
print(child.pid, flush=True)
child.ask(sys.argv[2].encode(), 600)
time.sleep(600)
"""


def _has_ended(pid: int) -> bool:
    """Gone, or waiting for its new parent to reap it, which a container may not have."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
