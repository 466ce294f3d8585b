"""The controller's watch over the memory of its workers: a cell that takes too much is ended.

It looks from outside because a worker that fills memory in one native call, or in one operation of
Python on a list, holds its interpreter: no thread of its own would get to see it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from harness.execution.memory import (
    GIB,
    format_memory_use,
    read_descendants_bytes,
    read_proportional_bytes,
    read_resident_bytes,
)
from harness.workers import worker_status
from harness.workers.worker_status import WorkerStatus

# Seconds between two looks, the fewer the less is left of a budget: memory is filled at some GB/s
# at most, and what is not seen in between is a small part.
_SHORTEST, _LONGEST = 0.03, 0.1
_FASTEST = 8 * GIB
# In which a signal stops the last thread of a process, and a fork becomes another program.
_STOPPING = 0.005


@dataclass
class ObservedMemory:
    """What was seen of a cell.

    Attributes:
        doing: the cell.
        peaks: the most that it was seen to hold above its base, in bytes, by stage.
        others: what each child held before the cell, by process id.
        verdict: why it was ended, or empty.
    """

    doing: WorkerStatus
    peaks: dict[str, int] = field(default_factory=dict)
    others: dict[int, int] = field(default_factory=dict)
    verdict: str = ""

    def note(self, held: int) -> None:
        """Count what is held to the stage, if one has begun."""
        if stage := self.doing.stage:
            self.peaks[stage] = max(self.peaks.get(stage, 0), held)

    def complete(self, memory: dict[str, int]) -> None:
        """Raise a cell's own figures to what was seen: what compilers and other children took is
        seen from outside only."""
        for stage, peak in self.peaks.items():
            memory[stage] = max(memory.get(stage, 0), peak)


class MemoryMonitor(threading.Thread):
    """Looks at all workers many times a second, and ends those whose cell is beyond its budget.

    What it takes is taken from the workers, where there are as many as cores.
    """

    def __init__(self, folder: Path) -> None:
        """Watch nobody yet.

        Args:
            folder: where workers say what they do (:mod:`harness.workers.worker_status`).
        """
        super().__init__(name="conform-memory-watch", daemon=True)
        self._folder = folder
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._workers: dict[str, dict[int, int]] = {}  # what the children of each held last
        self._seen: dict[str, ObservedMemory] = {}

    def add(self, worker: str) -> None:
        """Watch a worker from now on."""
        with self._lock:
            self._workers[worker] = {}

    def remove(self, worker: str) -> None:
        """Watch a worker no more; what was seen stays."""
        with self._lock:
            self._workers.pop(worker, None)

    def pop_observation(self, cell: str) -> ObservedMemory | None:
        """What was seen of a cell that has ended, once."""
        with self._lock:
            return self._seen.pop(cell, None)

    def close(self) -> None:
        """End the watch."""
        self._over.set()

    def run(self) -> None:
        """Look, until :meth:`close`."""
        wait = _SHORTEST
        while not self._over.wait(wait):
            with self._lock:
                left = [self._look(worker) for worker in self._workers]
            wait = min(max(min(left, default=0) / _FASTEST, _SHORTEST), _LONGEST)

    def _look(self, worker: str) -> int:
        """The bytes that are left to a worker's cell, of which all are left as it begins."""
        doing = worker_status.read_status(self._folder, worker)
        if doing is None:
            return 0
        left = doing.budget
        own, below = read_resident_bytes(doing.pid), read_descendants_bytes(doing.pid)
        # Seen at the turn of two stages it would be counted to the wrong one.
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
        """Look closely at a worker that holds still, and end it or let it go on."""
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
