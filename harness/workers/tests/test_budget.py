"""Workers that exceed their memory budget are ended, and cells that do not fit wait."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.pytest_plugin.tests.sessions import environment
from harness.workers import worker_status
from harness.workers.memory_monitor import MemoryMonitor, ObservedMemory
from harness.workers.worker_status import StatusFile, WorkerStatus

MIB = 2**20
BUDGET = 96 * MIB
SECONDS = 60.0

# A worker as the watch sees one, with a cell that is any code.
WORKER = """
import os, sys
from pathlib import Path
from harness.workers.worker_status import StatusFile, WorkerStatus
from harness.workers.memory import read_resident_bytes
folder, asked, code = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
kept = bytearray(b"x") * (64 << 20)
doing = WorkerStatus(pid=os.getpid(), cell="hog/x@null:eager", stage="run",
                     base=read_resident_bytes(), budget={budget}, asked=asked)
StatusFile(folder, "gw0").write(doing)
exec(code)
"""
STEPS = "kept = []\nwhile True: kept.append([0] * 10_000)"
ONE_OPERATION = "[0] * (1 << 28)"
NATIVE = """
import ctypes
libc = ctypes.PyDLL(None)  # keeps the interpreter's lock, as native code may
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
libc.memset(libc.malloc(2 << 30), 1, 2 << 30)
"""
CHILD = f"import subprocess; subprocess.run([sys.executable, '-S', '-c', {STEPS!r}])"
MODEST = "mine = bytearray(b'x') * (48 << 20); import time; time.sleep(0.3)"
# Pages that a fork shares with its parent exist once, and a fork is as large as the parent.
FORKS = """
import time
for number in range(4):
    if not os.fork():
        mine = bytearray(b"x") * (4 << 20)
        time.sleep(0.5)
        os._exit(0)
time.sleep(0.6)
"""


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[MemoryMonitor]:
    watch = MemoryMonitor(tmp_path)
    watch.add("gw0")
    watch.start()
    yield watch
    watch.close()
    watch.join()


def live(folder: Path, code: str, asked: int = BUDGET) -> int:
    """Have a worker run a cell; how it ended."""
    command = [sys.executable, "-c", WORKER.format(budget=BUDGET), str(folder), str(asked), code]
    return subprocess.run(command, env=environment(), timeout=SECONDS, check=False).returncode


def seen_of(watch: MemoryMonitor) -> ObservedMemory:
    seen = watch.pop_observation("hog/x@null:eager")
    assert seen is not None
    assert watch.pop_observation("hog/x@null:eager") is None
    return seen


@pytest.mark.parametrize(
    ("code", "inside"),
    [(STEPS, ""), (ONE_OPERATION, ""), (NATIVE, ""), (CHILD, " of it in child processes")],
    ids=["python", "one operation", "native", "child"],
)
def test_a_cell_beyond_its_budget_is_ended_and_why(
    watch: MemoryMonitor, tmp_path: Path, code: str, inside: str
) -> None:
    assert live(tmp_path, code) == -signal.SIGKILL
    seen = seen_of(watch)
    assert seen.verdict.startswith("memory: 0.")
    assert "GiB at stage run" in seen.verdict
    assert "; the budget is 0.0938 GiB above the worker's base" in seen.verdict
    assert inside in seen.verdict
    # Seen early enough that the machine is not in danger.
    assert BUDGET < seen.peaks["run"] < 2**30


@pytest.mark.parametrize("code", [MODEST, pytest.param(FORKS, marks=pytest.mark.skipif(
    sys.platform != "linux", reason="shared pages count twice elsewhere"))])  # fmt: skip
def test_a_cell_within_its_budget_is_left_alone(
    watch: MemoryMonitor, tmp_path: Path, code: str
) -> None:
    assert live(tmp_path, code) == 0
    seen = seen_of(watch)
    assert seen.verdict == ""
    assert seen.peaks["run"] > 8 * MIB


def test_who_asks_for_more_than_there_is_is_told_so(watch: MemoryMonitor, tmp_path: Path) -> None:
    assert live(tmp_path, STEPS, asked=64 << 30) == -signal.SIGKILL
    assert seen_of(watch).verdict.endswith("all that is available of the 64 GiB it asks for")


def test_a_worker_between_two_cells_is_not_watched(watch: MemoryMonitor, tmp_path: Path) -> None:
    code = "StatusFile(folder, 'gw0').write(WorkerStatus(pid=os.getpid()))\n[0] * (1 << 25)"
    assert live(tmp_path, code) == 0
    seen = watch.pop_observation("hog/x@null:eager")
    assert seen is None or not seen.verdict


class Workers:
    """Cells of several workers, one thread each, with room for three."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[str] = []
        self.most: list[int] = []

    def start(self, name: str, budget: int, until: threading.Event) -> threading.Thread:
        def cell() -> None:
            doing = WorkerStatus(pid=0, cell=name, budget=budget)
            with StatusFile(self.folder, name).wait_for_memory(doing, 3):
                self.running.append(name)
                until.wait(SECONDS)
                self.running.remove(name)

        thread = threading.Thread(target=cell)
        thread.start()
        return thread


def eventually(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_cells_that_do_not_fit_wait_in_turn_and_a_large_one_runs_alone(tmp_path: Path) -> None:
    workers = Workers(tmp_path)
    ends = {name: threading.Event() for name in ("one", "two", "large", "late")}
    threads = []
    for name, budget, running in [
        ("one", 1, {"one"}),
        ("two", 2, {"one", "two"}),  # 3 of 3
        ("large", 9, {"one", "two"}),
        ("late", 1, {"one", "two"}),
    ]:
        threads.append(workers.start(name, budget, ends[name]))
        eventually(lambda running=running: set(workers.running) == running)
        time.sleep(0.1)  # in which nothing else may start
        assert set(workers.running) == running
    for ended, running in [("one", {"two"}), ("two", {"large"}), ("large", {"late"})]:
        ends[ended].set()
        eventually(lambda running=running: set(workers.running) == running)
        time.sleep(0.1)
        assert set(workers.running) == running
    ends["late"].set()
    for thread in threads:
        thread.join(SECONDS)


def test_nobody_waits_for_the_dead(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from harness.workers.worker_status import StatusFile, WorkerStatus\n"
        "status = WorkerStatus(pid=0, cell='a', budget=3)\n"
        "with StatusFile(Path(sys.argv[1]), 'gw0').wait_for_memory(status, 3):\n"
        "    print('in', flush=True); time.sleep(60)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        workers, end = Workers(tmp_path), threading.Event()
        thread = workers.start("next", 1, end)
        time.sleep(0.1)
        assert not workers.running
        process.kill()
        eventually(lambda: workers.running == ["next"])
    end.set()
    thread.join(SECONDS)
    last = worker_status.read_status(tmp_path, "gw0")
    assert last is not None
    assert last.cell == "a"  # what it died in
