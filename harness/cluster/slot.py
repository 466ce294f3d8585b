"""Slots of a worker: each starts a process that runs cells, sends it units of work, and replaces it
when a cell ends it."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any

import msgspec
from distributed.diskutils import WorkSpace

from harness.cache_folders import cache_folder
from harness.cluster import slot_process
from harness.cluster.messages import CellDied, ProcessMessage, UnitResult, WorkerInfo, WorkUnit
from harness.cluster.slot_process import SlotConfig
from harness.errors import UsageError, WorkerEnded
from harness.record.cell import Cell, Status
from harness.record.host import available_memory
from harness.workers import fork_server
from harness.workers.crash_record import add_observed_memory, build_crash_record
from harness.workers.memory import GIB
from harness.workers.memory_monitor import MemoryMonitor
from harness.workers.process import WorkerProcess
from harness.workers.protocol import CellEnded, CellStarted, Finished, Refused

Report = Callable[[CellStarted | CellEnded | CellDied], None]
"""Receives the events of a unit."""

# The rest is for other processes.
_SHARE_OF_MEMORY = 0.9
# With less free disk space a worker refuses work, as it writes programs, kernels and stacks.
_MIN_FREE_DISK = 64 << 20
_NO_SPACE = os.strerror(errno.ENOSPC)


class ClusterSlot:
    """A process that runs cells; started by the first unit, and again after a cell ended it.

    Only one thread at a time may use a slot.
    """

    def __init__(self, config: SlotConfig, watch: MemoryMonitor, python: Sequence[str]) -> None:
        self._config = config
        self._watch = watch
        self._log = Path(config.logs) / f"{config.name}.log"
        self._process: WorkerProcess[ProcessMessage] = WorkerProcess(
            slot_process.__name__,
            ProcessMessage,
            output=self._log,
            folder=Path(config.root),
            python=python,
        )
        self._code = ""

    def start(self, *, speed: bool = True) -> WorkerInfo | None:
        """Start the process, unless it runs, and wait until it has loaded the backends.

        Returns:
            Its description of this worker; None if it was running already.

        Raises:
            UsageError: it does not start; the message contains the end of its output.
        """
        if self._process.pid is not None and self._config.speed == speed:
            return None
        self.close()
        self._config = msgspec.structs.replace(self._config, speed=speed)
        info, problem = None, ""
        try:
            self._process.start()
            self._watch.add(self._config.name)
            self._process.send(self._config)
            for event in self._process.events():
                match event:
                    case WorkerInfo():
                        info = event
                    case Refused():
                        problem = event.message
        except (WorkerEnded, OSError) as error:
            problem = str(error)
        if info is not None and self._process.pid is not None:
            return self._check_revision(info)
        self.close()
        printed = self._log.read_text(errors="replace").strip().splitlines()
        fate = problem or self._process.end
        raise UsageError("\n".join([f"a process that runs cells {fate}", *printed[-5:]]))

    def _check_revision(self, info: WorkerInfo) -> WorkerInfo:
        """Refuse a process whose checkout differs from the previous process's."""
        code = info.environment.revision
        if self._code and code != self._code:
            self.close()
            raise UsageError(
                f"the checkout of this worker changed from {self._code} to {code}; "
                "restart the worker"
            )
        self._code = code
        return info

    def run(self, unit: WorkUnit, report: Report) -> UnitResult:
        """Run the cells of a unit.

        Args:
            unit: unit of work.
            report: receives the events of the cells.
        """
        try:
            if shutil.disk_usage(self._config.logs).free < _MIN_FREE_DISK:
                raise OSError(errno.ENOSPC, _NO_SPACE)
            self.start(speed=unit.speed)
            self._process.send(unit)
        except (UsageError, OSError) as error:
            return UnitResult(refused=str(error), unfit=True)
        ended: list[str] = []
        running: str | None = None
        for event in self._process.events():
            match event:
                case CellStarted():
                    running = event.cell
                    report(event)
                case CellEnded():
                    cell = Cell.from_json(event.record)
                    if cell.status.is_red and _NO_SPACE in (cell.traceback or cell.error or ""):
                        # The worker is at fault, not the cell.
                        self.close()
                        return UnitResult(ended=ended, refused=_NO_SPACE, unfit=True)
                    ended.append(cell.id)
                    running = None
                    add_observed_memory(cell, self._watch.pop_observation(cell.id))
                    report(msgspec.structs.replace(event, record=cell.to_json()))
                case Finished():
                    return UnitResult(ended=ended)
                case Refused():
                    return UnitResult(ended=ended, refused=event.message)
        fate = self.close()
        if running is None:
            return UnitResult(ended=ended, refused=f"its process {fate} between two cells")
        report(self._record_death(running, unit.asked.seed, fate))
        return UnitResult(ended=ended, died=running)

    def close(self) -> str:
        """End the process, if there is one, and return how it ended."""
        self._watch.remove(self._config.name)
        return self._process.close()

    def _record_death(self, name: str, seed: int, fate: str) -> CellDied:
        logs, worker = Path(self._config.logs), self._config.name
        seen = self._watch.pop_observation(name)
        cell, is_judged = build_crash_record(logs, name, worker, seed, seen)
        was_ended = cell.status is Status.TIMEOUT or (seen is not None and bool(seen.verdict))
        if not is_judged and not was_ended and cell.traceback is None:
            cell.error = f"its process {fate}"
        return CellDied(name, cell.to_json(), judged=is_judged, final=is_judged or was_ended)


class SlotPool:
    """All slots of a worker, which share a folder, a memory limit and a memory monitor.

    Several threads may call :meth:`run`; one unit per slot runs at once.

    Attributes:
        folder: logs and locks of the processes; removed when the pool is closed.
        memory: memory limit of all cells together, in bytes.
    """

    def __init__(self, root: Path, slots: int, memory: float | None = None) -> None:
        """Create the slots without starting processes.

        Args:
            root: root of the checkout.
            slots: number of processes.
            memory: memory in GiB for all cells together; None for most of the available memory.
        """
        limit = int(available_memory() * _SHARE_OF_MEMORY if memory is None else memory * GIB)
        # WorkSpace removes folders of killed workers.
        space: Any = WorkSpace(str(cache_folder("workers")))
        self._space = space.new_work_dir(prefix="worker-")
        self.folder = Path(self._space.dir_path)
        self.memory = limit
        self._watch = MemoryMonitor(self.folder)
        self._watch.start()
        python = fork_server.python_command()
        self._free: SimpleQueue[ClusterSlot] = SimpleQueue()
        self._slots = [
            ClusterSlot(
                SlotConfig(
                    root=str(root.resolve()),
                    logs=str(self.folder),
                    name=f"slot{number}",
                    memory=limit,
                ),
                self._watch,
                python,
            )
            for number in range(slots)
        ]
        for slot in self._slots:
            self._free.put(slot)
        self._is_closed = threading.Event()

    def __enter__(self) -> SlotPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def describe_worker(self) -> WorkerInfo:
        """Start a process and return its description of this worker.

        Raises:
            UsageError: the process does not start.
        """
        slot = self._free.get()
        try:
            slot.close()
            info = slot.start()
        finally:
            self._free.put(slot)
        if info is None:
            raise UsageError("a process that runs cells did not describe itself")
        return info

    def run(self, unit: WorkUnit, report: Report) -> UnitResult:
        """Run a unit in a free slot; wait for one if necessary."""
        slot = self._free.get()
        try:
            return slot.run(unit, report)
        finally:
            self._free.put(slot)
            if self._is_closed.is_set():
                slot.close()

    def close(self) -> None:
        """End all processes."""
        self._is_closed.set()
        for slot in self._slots:
            slot.close()
        self._watch.close()
        self._watch.join()
        self._space.release()
