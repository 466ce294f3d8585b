"""One process of a worker that runs cells, from the worker's side: started, handed units of work,
replaced by another when a cell ended it."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import IO, Any

import msgspec
from distributed.diskutils import WorkSpace

from harness.cache_folders import cache_folder
from harness.cluster import slot_process
from harness.cluster.messages import (
    Began,
    Died,
    Ended,
    Event,
    Finished,
    Hello,
    Outcome,
    Refused,
    Unit,
    decoder,
)
from harness.cluster.slot_process import Setting
from harness.errors import UsageError
from harness.execution.child_process import how_it_ended
from harness.execution.memory import GIB
from harness.pytest_plugin.workers import fork_server
from harness.pytest_plugin.workers.fork_server import Forked
from harness.record.cell import Cell, Status
from harness.record.host import available_memory
from harness.workers.crash_record import complete, record_of
from harness.workers.memory_monitor import Watch

Tell = Callable[[Began | Ended | Died], None]
"""Hears what becomes of the cells of a unit."""

_EXIT_SECONDS = 10.0
# What other processes of the machine, and this one, need as well.
_OF_WHAT_THERE_IS = 0.9
# Less on its disk, and a worker takes no work: programs, kernels and stacks are written there.
_LEAST_DISK = 64 << 20
_NO_SPACE = os.strerror(errno.ENOSPC)


class Slot:
    """A process, started by the first unit and again after each that ended it. One thread at a time
    may use it."""

    def __init__(self, setting: Setting, watch: Watch) -> None:
        self._setting = setting
        self._watch = watch
        self._process: subprocess.Popen[bytes] | Forked | None = None
        self._socket: socket.socket | None = None
        self._lifeline: socket.socket | None = None
        self._log = Path(setting.logs) / f"{setting.name}.log"
        self._code = ""

    def start(self, *, speed: bool = True) -> Hello | None:
        """Have a process that has loaded the vendors.

        Returns:
            What it says of itself; None when it was there already.

        Raises:
            UsageError: it does not start; the message has the end of what it printed.
        """
        if self._process is not None and self._setting.speed != speed:
            self.close()
        if self._process is not None and self._process.poll() is None:
            return None
        self.close()
        self._setting = msgspec.structs.replace(self._setting, speed=speed)
        self._socket, theirs = socket.socketpair()
        self._lifeline, watched = socket.socketpair()
        with theirs, watched, self._log.open("wb") as log:
            begin = _forked if fork_server.is_possible() else _started
            self._process = begin(self._setting, theirs, watched, log)
        self._watch.add(self._setting.name)
        for event in self._events():
            if isinstance(event, Hello):
                return self._same(event)
        fate = self._fate()
        printed = self._log.read_text(errors="replace").strip().splitlines()
        self.close()
        raise UsageError("\n".join([f"a process that runs cells {fate}", *printed[-5:]]))

    def _same(self, hello: Hello) -> Hello:
        """What a process says of itself, whose code must be that of the one before it."""
        code = hello.environment.revision
        if self._code and code != self._code:
            self.close()
            raise UsageError(
                f"the checkout of this worker was {self._code} when it began and is {code} now; "
                "start the worker again"
            )
        self._code = code
        return hello

    def run(self, unit: Unit, tell: Tell) -> Outcome:
        """Run the cells of a unit.

        Args:
            unit: the work.
            tell: hears of each cell.
        """
        try:
            if shutil.disk_usage(self._setting.logs).free < _LEAST_DISK:
                raise OSError(errno.ENOSPC, _NO_SPACE)
            self.start(speed=unit.speed)
            self._send(unit)
        except (UsageError, OSError) as error:
            return Outcome(refused=str(error), unfit=True)
        ended: list[str] = []
        running: str | None = None
        for event in self._events():
            match event:
                case Began():
                    running = event.cell
                    tell(event)
                case Ended():
                    cell = Cell.from_json(event.record)
                    if cell.status.is_red and _NO_SPACE in (cell.traceback or cell.error or ""):
                        # It accuses the worker, and not what it ran.
                        self.close()
                        return Outcome(ended=ended, refused=_NO_SPACE, unfit=True)
                    ended.append(event.cell)
                    running = None
                    complete(cell, self._watch.take(cell.id))
                    tell(msgspec.structs.replace(event, record=cell.to_json()))
                case Finished():
                    return Outcome(ended=ended)
                case Refused():
                    return Outcome(ended=ended, refused=event.message)
        fate = self._fate()
        self.close()
        if running is None:
            return Outcome(ended=ended, refused=f"its process {fate} between two cells")
        tell(self._death(running, unit.asked.seed, fate))
        return Outcome(ended=ended, died=running)

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            self._watch.drop(self._setting.name)
            process.kill()
            process.wait()
        for end in (self._socket, self._lifeline):
            if end is not None:
                end.close()
        self._socket = self._lifeline = None

    def _send(self, unit: Unit) -> None:
        if self._socket is None:
            raise OSError("its process is gone")
        self._socket.sendall(msgspec.json.encode(unit) + b"\n")

    def _events(self) -> Iterator[Event]:
        """What the process tells, until it ends."""
        if self._socket is None:
            return
        with self._socket.makefile("rb") as lines, contextlib.suppress(ConnectionError):
            for line in lines:
                yield decoder.decode(line)

    def _fate(self) -> str:
        """How the process ended, which has closed its side."""
        if self._process is None:
            return "is not running"
        try:
            return how_it_ended(self._process.wait(_EXIT_SECONDS))
        except subprocess.TimeoutExpired:
            return "closed its connection"

    def _death(self, name: str, seed: int, fate: str) -> Died:
        logs, worker = Path(self._setting.logs), self._setting.name
        seen = self._watch.take(name)
        cell, is_judged = record_of(logs, name, worker, seed, seen)
        was_ended = cell.status is Status.TIMEOUT or (seen is not None and bool(seen.verdict))
        if not is_judged and not was_ended and cell.traceback is None:
            cell.error = f"its process {fate}"
        return Died(name, cell.to_json(), judged=is_judged, final=is_judged or was_ended)


def _forked(
    setting: Setting, connection: socket.socket, lifeline: socket.socket, log: IO[bytes]
) -> Forked:
    """A process from one that has imported what it needs."""
    said = Connection(os.dup(log.fileno()), readable=False)
    try:
        text = msgspec.json.encode(setting).decode()
        return Forked(slot_process.forked, text, connection, lifeline, said, dict(os.environ))
    finally:
        said.close()


def _started(
    setting: Setting, connection: socket.socket, lifeline: socket.socket, log: IO[bytes]
) -> subprocess.Popen[bytes]:
    """A process by a command."""
    ends = (connection.fileno(), lifeline.fileno())
    return subprocess.Popen(
        # -P: a file in the working folder must not be taken for a module of ours.
        [sys.executable, "-P", "-m", slot_process.__name__,
         msgspec.json.encode(setting).decode(), *map(str, ends)],
        pass_fds=ends,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd=setting.root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip


class Crew:
    """All processes of a worker, and what they share: a folder, the memory of the machine, and a
    watch over it. Threads may call :meth:`run`; as many units run at once as there are slots.

    Attributes:
        folder: logs and locks of the processes, until the crew is closed.
    """

    def __init__(self, root: Path, slots: int, memory: float | None = None) -> None:
        """Start nothing yet.

        Args:
            root: the checkout.
            slots: processes.
            memory: GiB that their cells may take together; None for most of what is available.
        """
        room = int(available_memory() * _OF_WHAT_THERE_IS if memory is None else memory * GIB)
        # What a worker leaves that was killed is removed when the next one starts.
        place = cache_folder("workers")
        space: Any = WorkSpace(str(place))
        self._space = space.new_work_dir(prefix="worker-")
        self.folder = Path(self._space.dir_path)
        self.room = room
        self._watch = Watch(self.folder)
        self._watch.start()
        self._free: SimpleQueue[Slot] = SimpleQueue()
        self._slots = [
            Slot(
                Setting(
                    root=str(root.resolve()),
                    logs=str(self.folder),
                    name=f"slot{number}",
                    room=room,
                ),
                self._watch,
            )
            for number in range(slots)
        ]
        for slot in self._slots:
            self._free.put(slot)
        self._over = threading.Event()

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def hello(self) -> Hello:
        """What a process of this worker says of itself.

        Raises:
            UsageError: it does not start.
        """
        slot = self._free.get()
        try:
            slot.close()
            greeting = slot.start()
        finally:
            self._free.put(slot)
        if greeting is None:
            raise UsageError("a process that runs cells did not say what it is")
        return greeting

    def run(self, unit: Unit, tell: Tell) -> Outcome:
        """Run a unit in a process that is free."""
        slot = self._free.get()
        try:
            return slot.run(unit, tell)
        finally:
            self._free.put(slot)
            if self._over.is_set():
                slot.close()

    def close(self) -> None:
        """End all processes."""
        self._over.set()
        for slot in self._slots:
            slot.close()
        self._watch.close()
        self._watch.join()
        self._space.release()
