"""A check in a process of its own, begun again after the cell that killed it. Imports no torch.

Native code of a backend may take the process down with a model, or never end: that is a row of the
table like any other, and the cells after it still run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from harness.checking.messages import (
    WORKER,
    Began,
    Ended,
    Event,
    Finished,
    Locating,
    Lowered,
    Planned,
    Reached,
    Refused,
    Request,
    Traced,
    decoder,
)
from harness.errors import UsageError
from harness.execution.child_process import how_it_ended
from harness.execution.memory import GIB
from harness.pipeline.explain.model_frames import written_frame, written_vendor_frame
from harness.record.cell import Cell, Status
from harness.record.host import available_memory
from harness.record.target import split_cell_id
from harness.tracing import AUTOMATIC_TRACE_SECONDS, LOCATABLE_STAGES
from harness.workers.crash_record import complete_from
from harness.workers.last_words import last_words
from harness.workers.memory_monitor import Sighting, Watch

_LOG_LINES = 40
_ABORT_SECONDS = 10.0
# The rest is for the process before its first cell, and for what else runs on the machine.
_OF_WHAT_THERE_IS = 0.9


def supervise(
    request: Request, *, timeout: float | None = None, memory: float | None = None
) -> Iterator[Event]:
    """Check in a child process and pass on what it tells.

    Args:
        request: the check.
        timeout: seconds that a cell may take.
        memory: GiB that it may hold above what the process held before; None for what there is.

    Yields:
        ``Planned`` once, then ``Began``, ``Reached`` and ``Ended`` for each cell, and ``Traced``
        where that is asked for. A cell that ends the process has an ``Ended`` of its own, as
        crashed or timed out.

    Raises:
        UsageError: the model cannot be loaded or run in eager, or its code ends the process.
    """
    budget = available_memory() * _OF_WHAT_THERE_IS if memory is None else memory * GIB
    with tempfile.TemporaryDirectory(prefix="conform-") as folder:
        watch = Watch(Path(folder))
        watch.add(WORKER)
        watch.start()
        with contextlib.closing(watch):
            asked = msgspec.structs.replace(request, board=folder, budget=int(budget))
            yield from _lives(asked, timeout, watch)


def _lives(request: Request, timeout: float | None, watch: Watch) -> Iterator[Event]:
    done = list(request.done)
    crashed: list[str] = []
    is_planned = False
    while True:
        ended: str | None = None
        life = _Life(msgspec.structs.replace(request, done=done, crashed=crashed), timeout)
        crashed = []
        with life:
            for event in life.events():
                match event:
                    case Refused():
                        raise UsageError(event.message)
                    case Finished():
                        return
                    case Planned() if is_planned:
                        continue
                    case Planned():
                        is_planned = True
                    case Lowered():
                        continue
                    case Locating():
                        ended = event.cell
                        continue
                    case Ended():
                        event, ended = _with_children(event, watch)
                        done.append(ended)
                yield event
        if life.cell is None and ended is not None:
            # Between two cells there is nothing else that native code could have ended.
            yield Traced(ended, problem=f"tracing it: {life.fate}")
            continue
        if life.cell is None:
            raise UsageError(
                f"{request.source} ends the process that runs it: it {life.end}"
                f"{f', at {life.frame}' if life.frame else ''}"
            )
        dead = life.death(request.seed, watch.take(life.cell))
        yield Ended(dead.to_json())
        done.append(life.cell)
        if life.is_to_be_located(dead):
            crashed = [dead.to_json()]


def _with_children(event: Ended, watch: Watch) -> tuple[Ended, str]:
    """The record with what its children held, and the cell's id."""
    cell = Cell.from_json(event.record)
    if (seen := watch.take(cell.id)) is None:
        return event, cell.id
    seen.complete(cell.memory)
    return Ended(cell.to_json()), cell.id


class _Life:
    """One child process, from its start to its end.

    Attributes:
        cell: the cell under way, or None.
        stage: its stage, as far as it is known.
        end: how the process ended, once it has.
    """

    def __init__(self, request: Request, timeout: float | None) -> None:
        self.cell: str | None = None
        self.stage: str | None = None
        self.end = "is running"
        self._lowered: Cell | None = None
        self._printed = 0
        self._timeout = timeout
        # A program that is being lowered goes on when its tracing should have ended.
        self._tracing = None if request.trace else 2 * AUTOMATIC_TRACE_SECONDS
        self._limit: float | None = None
        self._timer: threading.Timer | None = None
        self._timed_out = False
        self._since = time.monotonic()
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed on exit)
        reading, writing = os.pipe()
        self._pipe = os.fdopen(reading, "rb")
        handed = (writing, self._log.fileno())
        try:
            self._process = subprocess.Popen(
                # -P: a file beside the model must not be taken for a module of ours.
                [sys.executable, "-P", "-m", "harness.checking.worker",
                 msgspec.json.encode(request).decode(), *map(str, handed)],
                pass_fds=handed,
                # Older glibc says what is wrong on the terminal otherwise.
                env={
                    "LIBC_FATAL_STDERR_": "1",
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                },
            )  # fmt: skip
        finally:
            os.close(writing)

    def __enter__(self) -> _Life:
        return self

    def __exit__(self, *_: object) -> None:
        """End the process if it lives: whoever leaves early wants no more of it."""
        self._settle_timer()
        self._pipe.close()
        if self._process.poll() is None:
            self._process.kill()
        self.end = how_it_ended(self._process.wait())
        self._log.seek(0)
        log = self._log.read()
        self._last = log.decode(errors="replace").strip().splitlines()
        self._words = last_words(log[self._printed :].decode(errors="replace"))
        self._log.close()

    def events(self) -> Iterator[Event]:
        """What it tells, until it ends."""
        for line in self._pipe:
            event = decoder.decode(line)
            match event:
                case Began():
                    self.cell, self.stage, self._lowered = event.cell, None, None
                    self._printed = event.printed
                    self._since = time.monotonic()
                    self._start_timer(self._timeout)
                case Reached():
                    self.stage = event.stage
                case Lowered():
                    self._lowered = Cell.from_json(event.record)
                case Locating():
                    self._start_timer(self._tracing)
                case Traced():
                    self._settle_timer()
                case Ended():
                    self.cell = None
                    self._start_timer(self._tracing)
            yield event
        # Its end of the pipe is closed: it has ended, or is about to.
        self._process.wait()

    @property
    def frame(self) -> str | None:
        """The line of the model in the stack that it left, of the thread that ended it."""
        return written_frame(self._stack, innermost_last=False)

    @property
    def _stack(self) -> str:
        """What the thread that ended it left, or nothing."""
        _, found, stack = "\n".join(self._last).rpartition("Current thread")
        return stack.partition("\n\n")[0] if found else ""

    @property
    def fate(self) -> str:
        """Why it ended."""
        if self._timed_out:
            return f"it did not end within {self._limit:g} s"
        return f"the process {self.end}"

    def death(self, seed: int, seen: Sighting | None) -> Cell:
        """The record of the cell that ended it, or was ended for what it held."""
        case, target = split_cell_id(self.cell or "")
        error = seen.verdict if seen is not None else ""
        if not error:
            error = self.fate
            if self._words and not self._timed_out:
                error = f"{error}: {self._words}"
        cell = Cell(
            case=case,
            target=str(target),
            status=Status.TIMEOUT if self._timed_out else Status.CRASHED,
            op=case.partition("/")[0],
            stage=self.stage,
            error=error,
            traceback="\n".join(self._last[-_LOG_LINES:]) or None,
            frame=self.frame,
            vendor_frame=written_vendor_frame(self._stack),
            seconds=time.monotonic() - self._since,
            memory=seen.peaks if seen is not None else {},
            seed=seed,
        )
        complete_from(cell, self._lowered)
        return cell

    @staticmethod
    def is_to_be_located(dead: Cell) -> bool:
        """Whether the node of a cell that ended its process can be found: executing its parts in
        yet another process shows it."""
        was_stopped = (dead.error or "").startswith("memory: ")
        return dead.status is Status.CRASHED and dead.stage in LOCATABLE_STAGES and not was_stopped

    def _start_timer(self, seconds: float | None) -> None:
        """Let it go on for so long."""
        self._settle_timer()
        self._limit = seconds
        if seconds is not None:
            self._timer = threading.Timer(seconds, self._time_out)
            self._timer.daemon = True
            self._timer.start()

    def _settle_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _time_out(self) -> None:
        self._timed_out = True
        # Its stack goes to the log.
        self._process.send_signal(signal.SIGABRT)
        try:
            self._process.wait(_ABORT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
