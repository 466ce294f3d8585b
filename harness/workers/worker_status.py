"""The status file of a worker, which the controller and other workers read.

A worker locks its file while a cell runs; the system releases the lock when the worker dies, so
that no process waits for a dead one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from harness.record.cell import Cell
from harness.record.folder import write_atomically
from harness.workers.memory import MemoryMeter

TRACE = "trace"
"""The pseudo-stage of tracing, after the stages of a cell with wrong outputs; its verdict is
kept."""

_SUFFIX = ".cell"
_RECORD = ".record"
_LOWERED = ".lowered"
_ENTRANCE = "entrance.lock"
_LONGEST = 1 << 16
_LOOK_AGAIN = 0.05


class WorkerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The running cell of a worker: its current stage, and memory in bytes.

    ``base`` is the worker's memory at the start of the cell, ``budget`` the bytes that the cell may
    hold above it, ``asked`` its budget on a machine with enough memory. Between cells ``cell`` is
    empty.
    """

    pid: int
    cell: str = ""
    stage: str = ""
    base: int = 0
    budget: int = 0
    asked: int = 0


_DOING = msgspec.json.Decoder(WorkerStatus)


class StatusFile:
    """A worker's own file."""

    def __init__(self, folder: Path, worker: str) -> None:
        """Create the file.

        Raises:
            OSError: the folder cannot be written.
        """
        self.folder = folder
        self.worker = worker
        self._place = folder / f"{worker}{_SUFFIX}"
        self._file = os.open(self._place, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        self._entrance = os.open(folder / _ENTRANCE, os.O_RDWR | os.O_CREAT, 0o644)

    def write(self, doing: WorkerStatus) -> None:
        """Write the status; nothing is written on a full disk."""
        line = msgspec.json.encode(doing) + b"\n"
        try:
            complete = os.pwrite(self._file, line, 0) == len(line)
        except OSError:
            complete = False
        if not complete:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, 0)

    def store_record(self, record: str) -> None:
        """Store the record of the running cell, in case this worker dies; a full disk loses it."""
        with contextlib.suppress(OSError):
            write_atomically(self._place.with_suffix(_RECORD), record.encode())

    def store_lowered(self, cell: Cell) -> None:
        """Store the running cell's data from before execution, likewise."""
        with contextlib.suppress(OSError):
            write_atomically(self._place.with_suffix(_LOWERED), cell.to_json().encode())

    def make_meter(
        self, doing: WorkerStatus, on_stage: Callable[[str], None] | None = None
    ) -> MemoryMeter:
        """Return a cell's meter, which writes each stage to the status file.

        Args:
            doing: the cell.
            on_stage: also called with each stage.
        """

        def entered(stage: str) -> None:
            self.write(msgspec.structs.replace(doing, base=meter.base, stage=stage))
            if on_stage is not None:
                on_stage(stage)

        meter = MemoryMeter(entered)
        return meter

    @contextmanager
    def wait_for_memory(self, doing: WorkerStatus, room: int) -> Iterator[None]:
        """Run a cell in this block; first wait until the cells of other workers leave enough
        memory.

        A waiting cell blocks all later ones, so that a large cell gets its turn. A cell runs alone
        regardless of its size.

        Args:
            doing: the cell.
            room: bytes that all concurrent cells may hold together.
        """
        fcntl.flock(self._entrance, fcntl.LOCK_EX)
        try:
            while (taken := self._taken()) and taken + doing.budget > room:
                time.sleep(_LOOK_AGAIN)
            self.write(doing)
            fcntl.flock(self._file, fcntl.LOCK_EX)
        finally:
            fcntl.flock(self._entrance, fcntl.LOCK_UN)
        try:
            yield
        finally:
            self.write(WorkerStatus(pid=doing.pid))
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _taken(self) -> int:
        """Return the bytes that the cells of other workers may hold together."""
        others = (file for file in self.folder.glob(f"*{_SUFFIX}") if file != self._place)
        return sum(doing.budget for file in others if (doing := _running(file)) is not None)


def read_status(folder: Path, worker: str) -> WorkerStatus | None:
    """Return a worker's status, or its last one; None without one."""
    return _read(folder / f"{worker}{_SUFFIX}")


def read_traced_record(folder: Path, worker: str, cell: str) -> Cell | None:
    """Return the record of a cell whose worker died while it traced the cell; None if it died
    before."""
    last = read_status(folder, worker)
    if last is None or (last.cell, last.stage) != (cell, TRACE):
        return None
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        record = Cell.from_json((folder / f"{worker}{_RECORD}").read_bytes())
        return record if record.id == cell else None
    return None


def read_lowered_record(folder: Path, worker: str) -> Cell | None:
    """Return the data of a worker's last cell from before execution; None if none was lowered."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return Cell.from_json((folder / f"{worker}{_LOWERED}").read_bytes())
    return None


def _read(file: Path) -> WorkerStatus | None:
    try:
        with open(file, "rb", buffering=0) as opened:
            line, end, _ = (opened.read(_LONGEST) or b"").partition(b"\n")
            return _DOING.decode(line) if end else None
    except (OSError, msgspec.MsgspecError):
        return None


def _running(file: Path) -> WorkerStatus | None:
    with contextlib.suppress(OSError), file.open("rb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read(file)
    return None
