"""Cells that take too much memory: ended, recorded, and never started beside each other."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.case import Case
from harness.budget import board
from harness.budget.board import Board, Doing
from harness.collection.tests.sessions import environment, outcomes, run
from harness.budget.watch import Sighting, Watch
from harness.errors import CaseError
from harness.record.cell import Status
from harness.record.folder import load

MIB = 2**20
BUDGET = 96 * MIB
SECONDS = 60.0

# A worker as the watch sees one, with a cell that is any code.
WORKER = """
import os, sys
from pathlib import Path
from harness.budget.board import Board, Doing
from harness.execution.memory import resident
folder, asked, code = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
kept = bytearray(b"x") * (64 << 20)
doing = Doing(pid=os.getpid(), cell="hog/x@null:eager", stage="run", base=resident(),
              budget={budget}, asked=asked)
Board(folder, "gw0").write(doing)
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
def watch(tmp_path: Path) -> Iterator[Watch]:
    watch = Watch(tmp_path)
    watch.add("gw0")
    watch.start()
    yield watch
    watch.close()
    watch.join()


def live(folder: Path, code: str, asked: int = BUDGET) -> int:
    """Have a worker run a cell; how it ended."""
    command = [sys.executable, "-c", WORKER.format(budget=BUDGET), str(folder), str(asked), code]
    return subprocess.run(command, env=environment(), timeout=SECONDS, check=False).returncode


def seen_of(watch: Watch) -> Sighting:
    seen = watch.take("hog/x@null:eager")
    assert seen is not None
    assert watch.take("hog/x@null:eager") is None
    return seen


@pytest.mark.parametrize(
    ("code", "inside"),
    [(STEPS, ""), (ONE_OPERATION, ""), (NATIVE, ""), (CHILD, " of it in child processes")],
    ids=["python", "one operation", "native", "child"],
)
def test_a_cell_beyond_its_budget_is_ended_and_why(
    watch: Watch, tmp_path: Path, code: str, inside: str
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
def test_a_cell_within_its_budget_is_left_alone(watch: Watch, tmp_path: Path, code: str) -> None:
    assert live(tmp_path, code) == 0
    seen = seen_of(watch)
    assert seen.verdict == ""
    assert seen.peaks["run"] > 8 * MIB


def test_who_asks_for_more_than_there_is_is_told_so(watch: Watch, tmp_path: Path) -> None:
    assert live(tmp_path, STEPS, asked=64 << 30) == -signal.SIGKILL
    assert seen_of(watch).verdict.endswith("all that is available of the 64 GiB it asks for")


def test_a_worker_between_two_cells_is_not_watched(watch: Watch, tmp_path: Path) -> None:
    code = "Board(folder, 'gw0').write(Doing(pid=os.getpid()))\n[0] * (1 << 25)"
    assert live(tmp_path, code) == 0
    seen = watch.take("hog/x@null:eager")
    assert seen is None or not seen.verdict


class Workers:
    """Cells of several workers, one thread each, with room for three."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[str] = []
        self.most: list[int] = []

    def start(self, name: str, budget: int, until: threading.Event) -> threading.Thread:
        def cell() -> None:
            doing = Doing(pid=0, cell=name, budget=budget)
            with Board(self.folder, name).admitted(doing, 3):
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
        "from harness.budget.board import Board, Doing\n"
        "with Board(Path(sys.argv[1]), 'gw0').admitted(Doing(pid=0, cell='a', budget=3), 3):\n"
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
    last = board.read(tmp_path, "gw0")
    assert last is not None
    assert last.cell == "a"  # what it died in


SUITE = """
import json, os, time
import torch
from harness.case import Case

class Add(torch.nn.Module):
    def forward(self, x):
        # Tensors that export traces have no memory.
        if not torch.compiler.is_exporting():
            self.allocate()
        return x + x

    def allocate(self):
        pass

class Steps(Add):
    def allocate(self):
        kept = []
        while True:
            kept.append(torch.ones(1 << 18))

class Giant(Add):
    def allocate(self):
        torch.ones(1 << 48)

class Much(Add):
    def allocate(self):
        torch.ones(80 << 20)

def slow():
    begin = time.time()
    time.sleep(0.3)
    with open("times", "a") as file:
        file.write(json.dumps([begin, time.time()]) + "\\n")
    return Add(), (torch.randn(2, 3),)

def case(name, module=Add, **fields):
    return Case(name, lambda: (module(), (torch.randn(2, 3),)), **fields)

CASES = [{cases}]
"""


def suite(project: Path, cases: str) -> None:
    (project / "suites" / "small.py").write_text(SUITE.replace("{cases}", cases))


def test_a_cell_that_allocates_without_end_costs_one_row(project: Path) -> None:
    suite(
        project,
        'case("add/a"), case("hog/steps", Steps), case("hog/giant", Giant),'
        'case("ask/more", Much, memory=1), case("add/b")',
    )
    result = run(project, "-n", "1", "--cell-memory", "0.2")
    assert result.returncode == 1, result.stdout
    record = load(project / "run")
    assert record.is_complete, record.incompleteness
    assert outcomes(record) == {
        "add/a": Status.PASSED,
        "hog/steps": Status.CRASHED,
        "hog/giant": Status.CRASHED,
        "ask/more": Status.PASSED,
        "add/b": Status.PASSED,
    }
    ended, refused = (record.cell(f"hog/{name}@null:eager") for name in ("steps", "giant"))
    assert ended.stage == "build"
    assert "GiB at stage build; the budget is 0.2 GiB above" in str(ended.error)
    assert 0.2 * 2**30 < ended.memory["build"] < 0.8 * 2**30
    assert "conform repro hog/steps@null:eager" in result.stdout
    assert refused.stage == "build"
    assert "GiB at stage build, and more was refused: RuntimeError" in str(refused.error)
    more = record.cell("ask/more@null:eager")
    assert more.memory["reference"] > 0.2 * 2**30
    assert set(more.stages) <= set(more.memory)


def test_cells_that_do_not_fit_the_machine_run_one_at_a_time(project: Path) -> None:
    suite(project, ",".join(f'Case("add/{name}", slow, memory=2e6)' for name in "abcd"))
    result = run(project, "-n", "2", "--cell-memory", "1e6")
    assert result.returncode == 0, result.stdout
    assert "cells of 2 workers wait for each other: 1e+06 GiB each (--cell-memory)" in result.stdout
    times = sorted(map(json.loads, (project / "times").read_text().splitlines()))
    assert len(times) == 4
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(times))
    assert {cell.worker for cell in load(project / "run").cells} == {"gw0", "gw1"}


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="refuses nothing elsewhere")
def test_without_workers_what_the_machine_does_not_have_is_refused(project: Path) -> None:
    (project / "conftest.py").write_text(
        "from harness.collection.items import ROOM\n"
        'pytest_plugins = ["harness.collection.plugin"]\n'
        "def pytest_configure(config):\n"
        "    config.stash[ROOM] = 600 << 20\n"
    )
    suite(project, 'case("add/a"), case("hog/steps", Steps), case("add/b")')
    assert run(project, "-n", "0", "--cell-memory", "0.1").returncode == 1
    record = load(project / "run")
    hog = record.cell("hog/steps@null:eager")
    assert (hog.status, hog.stage) == (Status.CRASHED, "reference")
    assert "and more was refused" in str(hog.error)
    assert record.counts[Status.PASSED] == 2


@pytest.mark.parametrize("memory", [-1.0, float("nan"), float("inf")])
def test_a_case_asks_for_memory_that_can_be_had(memory: float) -> None:
    with pytest.raises(CaseError, match=r"case 'a' asks for (-1|nan|inf) GiB"):
        Case("a", lambda: None, memory=memory)  # type: ignore[arg-type,return-value]
