"""What a worker does at this moment, in a file that the controller and other workers read.

A worker holds a lock on its file while a cell runs; the system lets go of it when the worker dies,
so that nobody waits for the dead.
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

from harness.execution.memory import MemoryMeter
from harness.record.cell import Cell
from harness.record.folder import write_atomically

TRACE = "trace"
"""What follows the stages of a cell that is wrong: its verdict is there, and is kept."""

_SUFFIX = ".cell"
_RECORD = ".record"
_LOWERED = ".lowered"
_ENTRANCE = "entrance.lock"
_LONGEST = 1 << 16
_LOOK_AGAIN = 0.05


class WorkerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A cell on its way: the stage that it entered last, and its memory in bytes.

    ``base`` is what the worker held as it began, ``budget`` what it may hold above that,
    ``asked`` what it would be given by a machine that has it. Between two cells ``cell`` is empty.
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
        """Make the file.

        Raises:
            OSError: the folder cannot be written.
        """
        self.folder = folder
        self.worker = worker
        self._place = folder / f"{worker}{_SUFFIX}"
        self._file = os.open(self._place, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        self._entrance = os.open(folder / _ENTRANCE, os.O_RDWR | os.O_CREAT, 0o644)

    def write(self, doing: WorkerStatus) -> None:
        """Say what is done; on a full disk nothing is said."""
        line = msgspec.json.encode(doing) + b"\n"
        try:
            complete = os.pwrite(self._file, line, 0) == len(line)
        except OSError:
            complete = False
        if not complete:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, 0)

    def store_record(self, record: str) -> None:
        """Leave the record of the cell under way for whoever finds this worker dead; on a full disk
        it is lost with the worker."""
        with contextlib.suppress(OSError):
            write_atomically(self._place.with_suffix(_RECORD), record.encode())

    def store_lowered(self, cell: Cell) -> None:
        """Leave what is known of the cell under way before it is executed, likewise."""
        with contextlib.suppress(OSError):
            write_atomically(self._place.with_suffix(_LOWERED), cell.to_json().encode())

    def make_meter(
        self, doing: WorkerStatus, on_stage: Callable[[str], None] | None = None
    ) -> MemoryMeter:
        """A meter of a cell; each stage that begins is said here.

        Args:
            doing: the cell.
            on_stage: hears of the stages as well.
        """

        def entered(stage: str) -> None:
            self.write(msgspec.structs.replace(doing, base=meter.base, stage=stage))
            if on_stage is not None:
                on_stage(stage)

        meter = MemoryMeter(entered)
        return meter

    @contextmanager
    def wait_for_memory(self, doing: WorkerStatus, room: int) -> Iterator[None]:
        """Run a cell, and wait before that while what runs in other workers leaves it no room.

        Who waits keeps all that come later waiting, so that a cell that asks for much gets its
        turn. One runs alone whatever it asks for.

        Args:
            doing: the cell.
            room: bytes that all cells of a moment may ask for together.
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
        """What the cells that run in other workers may take together."""
        others = (file for file in self.folder.glob(f"*{_SUFFIX}") if file != self._place)
        return sum(doing.budget for file in others if (doing := _running(file)) is not None)


def read_status(folder: Path, worker: str) -> WorkerStatus | None:
    """What a worker does, or did last; None where it says nothing."""
    return _read(folder / f"{worker}{_SUFFIX}")


def read_traced_record(folder: Path, worker: str, cell: str) -> Cell | None:
    """The record of a cell whose worker died while it was traced; None where it died before."""
    last = read_status(folder, worker)
    if last is None or (last.cell, last.stage) != (cell, TRACE):
        return None
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        record = Cell.from_json((folder / f"{worker}{_RECORD}").read_bytes())
        return record if record.id == cell else None
    return None


def read_lowered_record(folder: Path, worker: str) -> Cell | None:
    """What is known of the last cell of a worker that had a program; None where none had."""
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
