"""The memory monitor: the controller ends cells that exceed their memory budget.

It observes workers from outside, because a native call, or one operation of Python on a list, can
fill memory while it holds the interpreter; no thread of the worker would run in between.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from harness.workers import worker_status
from harness.workers.memory import (
    GIB,
    format_memory_use,
    read_descendants_bytes,
    read_proportional_bytes,
    read_resident_bytes,
)
from harness.workers.worker_status import WorkerStatus

# Seconds between two checks, fewer as less of a budget remains: memory is filled at a few GB/s at
# most, so the growth between two checks is small.
_SHORTEST, _LONGEST = 0.03, 0.1
_FASTEST = 8 * GIB
# Seconds for a signal to stop the last thread of a process, and for a fork to exec.
_STOPPING = 0.005


@dataclass
class ObservedMemory:
    """The observed memory of a cell.

    Attributes:
        doing: the status of the cell.
        peaks: its highest observed memory above its base, in bytes, by stage.
        others: bytes that each child held before the cell, by process id.
        verdict: why it was ended, or empty.
    """

    doing: WorkerStatus
    peaks: dict[str, int] = field(default_factory=dict)
    others: dict[int, int] = field(default_factory=dict)
    verdict: str = ""

    def note(self, held: int) -> None:
        """Count the held bytes towards the current stage, if one has begun."""
        if stage := self.doing.stage:
            self.peaks[stage] = max(self.peaks.get(stage, 0), held)

    def complete(self, memory: dict[str, int]) -> None:
        """Raise a cell's own figures to the observed peaks, which include compilers and other
        children."""
        for stage, peak in self.peaks.items():
            memory[stage] = max(memory.get(stage, 0), peak)


class MemoryMonitor(threading.Thread):
    """Checks all workers many times a second, and ends those whose cell exceeds its budget.

    The monitor's own time is taken from the workers if they use all cores.
    """

    def __init__(self, folder: Path) -> None:
        """Create a monitor without workers.

        Args:
            folder: the folder of the workers' status files (:mod:`harness.workers.worker_status`).
        """
        super().__init__(name="conform-memory-watch", daemon=True)
        self._folder = folder
        self._over = threading.Event()
        self._lock = threading.Lock()
        # The memory of each worker's children at the last check.
        self._workers: dict[str, dict[int, int]] = {}
        self._seen: dict[str, ObservedMemory] = {}

    def add(self, worker: str) -> None:
        """Start to watch a worker."""
        with self._lock:
            self._workers[worker] = {}

    def remove(self, worker: str) -> None:
        """Stop watching a worker; its observations remain."""
        with self._lock:
            self._workers.pop(worker, None)

    def pop_observation(self, cell: str) -> ObservedMemory | None:
        """Return and remove the observations of a cell that has ended."""
        with self._lock:
            return self._seen.pop(cell, None)

    def close(self) -> None:
        """Stop the monitor."""
        self._over.set()

    def run(self) -> None:
        """Check all workers until :meth:`close`."""
        wait = _SHORTEST
        while not self._over.wait(wait):
            with self._lock:
                left = [self._look(worker) for worker in self._workers]
            wait = min(max(min(left, default=0) / _FASTEST, _SHORTEST), _LONGEST)

    def _look(self, worker: str) -> int:
        """Return the remaining bytes of a worker's cell; the whole budget when it begins."""
        doing = worker_status.read_status(self._folder, worker)
        if doing is None:
            return 0
        left = doing.budget
        own, below = read_resident_bytes(doing.pid), read_descendants_bytes(doing.pid)
        # At a change of stages the figure would count towards the wrong one.
        if own and worker_status.read_status(self._folder, worker) == doing and doing.cell:
            seen = self._seen.get(doing.cell)
            if seen is None or seen.doing.pid != doing.pid:
                seen = self._seen[doing.cell] = ObservedMemory(doing, others=self._workers[worker])
            seen.doing = doing
            held = _above(seen, own, below)
            seen.note(held)
            left -= held
            if left < 0:
                self._judge(worker, seen)
        self._workers[worker] = below
        return left

    def _judge(self, worker: str, seen: ObservedMemory) -> None:
        """Measure a stopped worker exactly, and end it or let it continue."""
        pid = seen.doing.pid
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(_STOPPING)
            below = read_descendants_bytes(pid)
            # Processes that share pages with the worker would be counted twice.
            exact = {
                child: min(held, read_proportional_bytes(child)) for child, held in below.items()
            }
            held = _above(seen, read_resident_bytes(pid), exact)
            doing = worker_status.read_status(self._folder, worker)
            if doing is None or doing.cell != seen.doing.cell or held <= doing.budget:
                os.kill(pid, signal.SIGCONT)
                return
            seen.doing = doing
            seen.verdict = _verdict(doing, held, held - (read_resident_bytes(pid) - doing.base))
            seen.note(held)
            for each in (pid, *below):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)


def _above(seen: ObservedMemory, own: int, below: dict[int, int]) -> int:
    children = (max(held - seen.others.get(pid, 0), 0) for pid, held in below.items())
    return max(own - seen.doing.base + sum(children), 0)


def _verdict(doing: WorkerStatus, held: int, children: int) -> str:
    inside = f", {children / GIB:.2f} GiB of it in child processes" if children > 0 else ""
    budget = f"the budget is {doing.budget / GIB:.3g} GiB above the worker's base"
    text = f"{format_memory_use(held, doing.stage)}{inside}; {budget}"
    if doing.asked > doing.budget:
        text += f", all that is available of the {doing.asked / GIB:.3g} GiB it asks for"
    return text
