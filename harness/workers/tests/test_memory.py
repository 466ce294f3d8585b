"""What is held is measured, whose it is and when; refusals are told from other errors."""

from __future__ import annotations

import gc
import mmap
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy
import pytest
import torch

from harness.errors import CaseError, OutOfMemory, ProgramError
from harness.record.host import available_memory
from harness.workers import memory
from harness.workers.child_process import ChildProcess
from harness.workers.memory import (
    MemoryMeter,
    is_out_of_memory,
    read_descendants_bytes,
    read_resident_bytes,
)
from harness.workers.tests.test_child_process import MISBEHAVING, SECONDS

MIB = 2**20
linux = pytest.mark.skipif(sys.platform != "linux", reason="what /proc tells is exact")
# What the interpreter takes beside what it is asked for, or has lying free.
SLACK = 16 * MIB


def about(size: int) -> object:
    return pytest.approx(size, abs=SLACK)


def touch(size: int) -> None:
    # Not of the heap, which may have as much lying free from tests before.
    with mmap.mmap(-1, size) as memory:
        memory[::4096] = b"x" * len(range(0, size, 4096))


@linux
def test_a_peak_belongs_to_the_stage_it_was_in_however_short() -> None:
    entered: list[str] = []
    meter = MemoryMeter(entered.append)
    for name, size in (("build", MIB), ("lower", 96 * MIB), ("run", MIB), ("lower", MIB)):
        with meter.stage(name):
            touch(size)
    assert entered == ["build", "lower", "run", "lower"]
    assert meter.peaks["lower"] == about(96 * MIB)
    assert max(meter.peaks["build"], meter.peaks["run"]) <= SLACK


class _Model:
    """Holds itself, and much."""

    def __init__(self) -> None:
        self.graph = self
        self.weights = torch.ones(96 * MIB, dtype=torch.uint8)


@linux
def test_what_was_left_in_cycles_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = memory._PeakTracker()
    base = mark.release()
    monkeypatch.setattr(memory, "_WORTH_COLLECTING", 64 * MIB)
    gc.collect()
    gc.disable()  # it may look any time
    try:
        _Model()
        assert read_resident_bytes() > base + 80 * MIB
        assert mark.release() <= base + SLACK
    finally:
        gc.enable()


@linux
def test_a_stage_that_raises_has_its_peak() -> None:
    meter = MemoryMeter()

    def stage() -> None:
        with meter.stage("run"):
            touch(64 * MIB)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        stage()
    assert meter.peaks["run"] == about(64 * MIB)


@linux
def test_stages_of_two_threads_lose_no_peak_to_each_other() -> None:
    began, ended = threading.Event(), threading.Event()

    def other() -> None:
        began.wait()
        with MemoryMeter().stage("other"):
            pass
        ended.set()

    thread = threading.Thread(target=other)
    thread.start()
    meter = MemoryMeter()
    with meter.stage("run"):
        touch(64 * MIB)
        began.set()
        ended.wait()
    thread.join()
    assert meter.peaks["run"] == about(64 * MIB)


def test_without_a_mark_to_set_back_what_is_seen_counts_and_the_highest_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    highest = [0, 0]
    monkeypatch.setattr(memory, "_reset_peak", lambda pid: False)
    monkeypatch.setattr(memory, "_read_lifetime_peak", lambda: highest.pop(0))
    meter = MemoryMeter()
    with meter.stage("lower"):
        kept = mmap.mmap(-1, 64 * MIB)
        kept[::4096] = b"x" * (64 * MIB // 4096)
        time.sleep(0.2)
        del kept
    highest += [meter.base + 96 * MIB] * 2
    with meter.stage("run"):
        pass
    highest += [meter.base + 96 * MIB, meter.base + 128 * MIB]
    with meter.stage("compare"):
        pass
    assert meter.peaks["lower"] == about(64 * MIB)
    assert meter.peaks["run"] <= SLACK
    assert meter.peaks["compare"] == 128 * MIB


@pytest.fixture
def child() -> Iterator[ChildProcess]:
    child = ChildProcess(MISBEHAVING, "the child", limit_memory=True)
    yield child
    child.close()


@linux
def test_what_a_child_takes_is_of_the_stage_that_asks(child: ChildProcess) -> None:
    meter = MemoryMeter()
    with meter.stage("start"):
        child.ask(b"echo", SECONDS)
    with meter.stage("run"):
        child.ask(b"take 96", SECONDS)
    with meter.stage("after"):
        child.ask(b"echo", SECONDS)
    assert meter.peaks["run"] == about(96 * MIB)
    assert max(meter.peaks["start"], meter.peaks["after"]) <= SLACK


def test_a_child_that_is_refused_memory_says_so(child: ChildProcess) -> None:
    with pytest.raises(OutOfMemory, match="the child was refused memory: MemoryError"):
        child.ask(b"allocate", SECONDS)
    with pytest.raises(ProgramError, match="SIGKILL, as a system does that runs out of memory"):
        child.ask(b"kill", SECONDS)


def in_a_case() -> None:
    try:
        bytearray(1 << 60)
    except MemoryError as error:
        raise CaseError("case 'a' cannot be built") from error


def in_a_circle() -> None:
    error = ValueError("no")
    error.__cause__ = error
    raise error


@pytest.mark.parametrize(
    ("ask", "refused"),
    [
        (lambda: [0] * (1 << 55), True),
        (lambda: torch.zeros(1 << 48), True),
        (lambda: numpy.zeros(1 << 48), True),
        (in_a_case, True),
        (in_a_circle, False),
        (lambda: torch.zeros(2) @ torch.zeros(3), False),
        (lambda: 1 // 0, False),
    ],
)
def test_a_refusal_is_told_from_other_errors(ask: Callable[[], object], refused: bool) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011  # of whatever class
        ask()
    assert is_out_of_memory(caught.value) == refused


FAMILY = """
import os, subprocess, sys, time
kept = bytearray(b"x") * (64 << 20)
if not os.fork():
    time.sleep(60)
subprocess.Popen([sys.executable, "-S", "-c", "x = bytearray(b'x') * (32 << 20); import time;"
                  "print('ready', flush=True); time.sleep(60)"])
time.sleep(60)
"""


@linux
def test_a_family_is_all_below_and_a_fork_holds_nothing_of_its_own() -> None:
    command = [sys.executable, "-S", "-c", FAMILY]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        below = read_descendants_bytes(process.pid)
        for pid in (process.pid, *below):
            subprocess.run(["kill", "-9", str(pid)], check=True)
    forked, started = sorted(below.values())
    assert forked == 0
    assert 32 * MIB <= started <= 64 * MIB
    assert read_descendants_bytes(process.pid) == {}
    assert read_resident_bytes(process.pid) == 0


LIMITED = """
import torch
from harness.workers.memory import limit_allocations
with limit_allocations(64 << 20):
    for ask in (lambda: bytearray(256 << 20), lambda: torch.zeros(64 << 20)):
        try:
            ask()
        except (MemoryError, RuntimeError) as error:
            print(type(error).__name__)
bytearray(256 << 20)
print("free")
"""


@linux
def test_allocations_beyond_a_limit_are_refused_and_only_there() -> None:
    made = subprocess.run(
        [sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True
    )
    assert made.stdout.split() == ["MemoryError", "RuntimeError", "free"]


def machine(folder: Path, cgroup: str, files: dict[str, str]) -> tuple[Path, Path]:
    """A machine with 8 GiB available, and these files of control groups."""
    written = {"proc/meminfo": "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n",
               "proc/self/cgroup": cgroup,
               **{f"groups/{name}": text for name, text in files.items()}}  # fmt: skip
    for name, text in written.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "proc", folder / "groups"


@pytest.mark.parametrize(
    ("cgroup", "files", "gib"),
    [
        ("0::/\n", {}, 8),
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/b/memory.current": "5", "a/b/memory.stat": ""},
         8),
        # The nearer group is wider than the one around it; pages of files are given back.
        ("0::/a/b\n", {"a/b/memory.max": str(7 << 30), "a/b/memory.current": "0",
                       "a/b/memory.stat": "", "a/memory.max": str(4 << 30),
                       "a/memory.current": str(3 << 30),
                       "a/memory.stat": f"file 9\ninactive_file {2 << 30}\n"}, 3),
        # A container sees the name of its host's group, and its own group at the top.
        ("0::/host/name\n", {"memory.max": str(2 << 30), "memory.current": str(1 << 30),
                             "memory.stat": "inactive_file 0\n"}, 1),
        ("5:cpu:/x\n4:memory:/x\n0::/\n",
         {"memory/x/memory.limit_in_bytes": str(6 << 30),
          "memory/x/memory.usage_in_bytes": str(1 << 30), "memory/x/memory.stat": "",
          "memory/memory.limit_in_bytes": str(2**63 - 4096),
          "memory/memory.usage_in_bytes": "0", "memory/memory.stat": ""}, 5),
        ("0::/\n", {"memory.max": "1", "memory.current": "9", "memory.stat": ""}, 0),
    ],
)  # fmt: skip
def test_available_is_what_the_narrowest_group_has_left(
    tmp_path: Path, cgroup: str, files: dict[str, str], gib: int
) -> None:
    assert available_memory(*machine(tmp_path, cgroup, files)) == gib << 30
