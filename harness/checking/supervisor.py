"""Run a check in a worker process and restart it after a crash. Imports no torch.

A backend's native code may crash the process or never return. The cell then ends as crashed or
timed out, and the remaining cells still run.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from harness.checking.messages import (
    LOG,
    WORKER,
    CellsPlanned,
    CellTraced,
    CheckEvent,
    CheckRequest,
    NodeSearchStarted,
)
from harness.errors import UsageError, WorkerEnded
from harness.pipeline.explain.model_frames import find_frame_in_text, find_vendor_frame_in_stack
from harness.record.cell import Cell, Status
from harness.record.host import available_memory
from harness.record.target import split_cell_id
from harness.tracing import AUTOMATIC_TRACE_SECONDS, LOCATABLE_STAGES
from harness.workers.crash_record import add_lowered_facts
from harness.workers.last_words import extract_last_stderr_lines
from harness.workers.memory import GIB
from harness.workers.memory_monitor import MemoryMonitor, ObservedMemory
from harness.workers.process import WorkerProcess
from harness.workers.protocol import (
    CellEnded,
    CellStarted,
    Finished,
    ProgramLowered,
    Refused,
    StageStarted,
)

_LOG_LINES = 40
_STDERR = 2
# The rest is for the worker process itself and for other processes on the machine.
_MEMORY_SHARE = 0.9


def supervise(
    request: CheckRequest, *, timeout: float | None = None, memory: float | None = None
) -> Iterator[CheckEvent]:
    """Run a check in a worker process and pass on its events.

    Args:
        request: the check.
        timeout: seconds that a cell may take.
        memory: GiB that a cell may add to the memory of the process; None for 90 % of the
            available memory.

    Yields:
        ``CellsPlanned`` once; ``CellStarted``, ``StageStarted`` and ``CellEnded`` for each cell;
        ``CellTraced`` for cells that were traced. A cell that ends the process has a
        ``CellEnded`` too, with the status crashed or timeout.

    Raises:
        UsageError: the model cannot be loaded or run in eager, or its code ends the process.
    """
    budget = available_memory() * _MEMORY_SHARE if memory is None else memory * GIB
    with tempfile.TemporaryDirectory(prefix="conform-") as folder:
        watch = MemoryMonitor(Path(folder))
        watch.add(WORKER)
        watch.start()
        with contextlib.closing(watch):
            complete = msgspec.structs.replace(request, folder=folder, budget=int(budget))
            yield from _run_processes(complete, timeout, watch)


def _run_processes(
    request: CheckRequest, timeout: float | None, watch: MemoryMonitor
) -> Iterator[CheckEvent]:
    done = list(request.done)
    crashed: list[str] = []
    is_planned = False
    while True:
        process = _CheckProcess(
            msgspec.structs.replace(request, done=done, crashed=crashed), timeout
        )
        crashed = []
        with process:
            for event in process.events():
                match event:
                    case Refused():
                        raise UsageError(event.message)
                    case Finished():
                        return
                    case CellsPlanned() if is_planned:
                        continue
                    case CellsPlanned():
                        is_planned = True
                    case CellEnded():
                        event = _add_child_memory(event, watch)
                        done.append(event.cell)
                yield event
        if process.cell is None and process.traced is not None:
            # Between two cells only tracing runs native code.
            yield CellTraced(process.traced, problem=f"tracing it: {process.failure}")
            continue
        if process.cell is None:
            raise UsageError(
                f"{request.source} ends the process that runs it: it {process.end}"
                f"{f', at {process.frame}' if process.frame else ''}"
            )
        dead = process.record_failure(request.seed, watch.pop_observation(process.cell))
        yield CellEnded(dead.id, dead.to_json())
        done.append(process.cell)
        if process.can_locate_node(dead):
            crashed = [dead.to_json()]


def _add_child_memory(event: CellEnded, watch: MemoryMonitor) -> CellEnded:
    """Add the memory of child processes to a record."""
    if (seen := watch.pop_observation(event.cell)) is None:
        return event
    cell = Cell.from_json(event.record)
    seen.complete(cell.memory)
    return CellEnded(cell.id, cell.to_json())


class _CheckProcess:
    """A worker process of a check.

    Attributes:
        cell: id of the running cell, or None.
        stage: its stage, or None if unknown.
        traced: id of the cell that ended last, or whose failing node is searched; None before.
        end: how the process ended.
    """

    def __init__(self, request: CheckRequest, timeout: float | None) -> None:
        self.cell: str | None = None
        self.stage: str | None = None
        self.traced: str | None = None
        self.end = "is running"
        self._request = request
        self._lowered: Cell | None = None
        self._printed = 0
        self._timeout = timeout
        # The worker checks its time limit only between lowerings, so allow twice the time.
        self._tracing = None if request.trace else 2 * AUTOMATIC_TRACE_SECONDS
        self._limit: float | None = None
        self._since = time.monotonic()
        self._log = Path(request.folder) / LOG
        self._process: WorkerProcess[CheckEvent] = WorkerProcess(
            "harness.checking.worker", CheckEvent, output=_STDERR
        )

    def __enter__(self) -> _CheckProcess:
        return self

    def __exit__(self, *_: object) -> None:
        """End the process if it still runs, and read its log."""
        self.end = self._process.close()
        log = self._log.read_bytes() if self._log.exists() else b""
        self._log_lines = log.decode(errors="replace").strip().splitlines()
        self._error_lines = extract_last_stderr_lines(log[self._printed :].decode(errors="replace"))

    def events(self) -> Iterator[CheckEvent]:
        """The events of the process until it ends, except those for the supervisor alone."""
        self._log.unlink(missing_ok=True)
        try:
            self._process.start()
            self._process.send(self._request)
        except (WorkerEnded, OSError):
            return
        for event in self._process.events():
            match event:
                case CellStarted():
                    self.cell, self.stage, self._lowered = event.cell, None, None
                    self._printed = event.printed
                    self._since = time.monotonic()
                    self._limit_time(self._timeout)
                case StageStarted():
                    self.stage = event.stage
                case ProgramLowered():
                    self._lowered = Cell.from_json(event.record)
                    continue
                case NodeSearchStarted():
                    self.traced = event.cell
                    self._limit_time(self._tracing)
                    continue
                case CellTraced():
                    self._limit_time(None)
                case CellEnded():
                    self.cell, self.traced = None, self.cell
                    self._limit_time(self._tracing)
            yield event

    @property
    def frame(self) -> str | None:
        """The line of the model at which the process crashed."""
        return find_frame_in_text(self._stack, innermost_last=False)

    @property
    def _stack(self) -> str:
        """The stack of the crashed thread, or an empty string."""
        _, found, stack = "\n".join(self._log_lines).rpartition("Current thread")
        return stack.partition("\n\n")[0] if found else ""

    @property
    def failure(self) -> str:
        """Why the process ended."""
        if self._process.is_timed_out:
            return f"it did not end within {self._limit:g} s"
        return f"the process {self.end}"

    def record_failure(self, seed: int, seen: ObservedMemory | None) -> Cell:
        """The record of the running cell, which crashed, timed out or used too much memory."""
        case, target = split_cell_id(self.cell or "")
        error = seen.verdict if seen is not None else ""
        if not error:
            error = self.failure
            if self._error_lines and not self._process.is_timed_out:
                error = f"{error}: {self._error_lines}"
        cell = Cell(
            case=case,
            target=str(target),
            status=Status.TIMEOUT if self._process.is_timed_out else Status.CRASHED,
            op=case.partition("/")[0],
            stage=self.stage,
            error=error,
            traceback="\n".join(self._log_lines[-_LOG_LINES:]) or None,
            model_frame=self.frame,
            vendor_frame=find_vendor_frame_in_stack(self._stack),
            seconds=time.monotonic() - self._since,
            memory=seen.peaks if seen is not None else {},
            seed=seed,
        )
        add_lowered_facts(cell, self._lowered)
        return cell

    @staticmethod
    def can_locate_node(dead: Cell) -> bool:
        """Whether another process can find the failing node by executing parts of the program."""
        was_stopped = (dead.error or "").startswith("memory: ")
        return dead.status is Status.CRASHED and dead.stage in LOCATABLE_STAGES and not was_stopped

    def _limit_time(self, seconds: float | None) -> None:
        """Limit the time until the next of these calls; None for no limit."""
        self._limit = seconds
        self._process.limit_time(seconds)
