"""A worker process for native code that runs untrusted bytes; it stays alive between requests.

If such bytes crash the process, the call raises :class:`ProgramError` with the signal's name, and
the next call starts another process. Imports neither torch nor numpy, so that a process starts as
fast as its file imports.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec

from harness.errors import OutOfMemory, ProgramError, WorkerEnded
from harness.workers.memory import count_child_memory
from harness.workers.process import WorkerProcess
from harness.workers.protocol import Finished, Refused
from harness.workers.served import Question


class ChildProcess:
    """A process that imports one file and answers requests; the first request starts it.

    The file defines ``answer(request: bytes) -> bytes``. Threads may share a child; it answers one
    request at a time. After a fork, the forked process starts another child.
    """

    def __init__(
        self,
        file: Path,
        name: str,
        environment: Mapping[str, str] | None = None,
        *,
        limit_memory: bool = False,
    ) -> None:
        """Configure the child; the first request starts it.

        Args:
            file: the Python file that it imports.
            name: description of the child in error messages.
            environment: environment variables to add to those of this process.
            limit_memory: as for :class:`~harness.workers.process.WorkerProcess`.
        """
        self._name = name
        self._lock = threading.Lock()
        self._process: WorkerProcess[Finished | Refused] = WorkerProcess(
            file, environment=environment, limit_memory=limit_memory
        )
        # Without the lock, which a thread may hold while it waits for an answer.
        atexit.register(self._process.close)

    @property
    def pid(self) -> int | None:
        """Process id, or None if the child is not running."""
        return self._process.pid

    def ask(self, request: bytes, seconds: float) -> bytes:
        """Send a request and wait for the answer.

        Args:
            request: bytes for the file's function.
            seconds: time limit, without the start of a child.

        Raises:
            OutOfMemory: the child ran out of memory.
            ProgramError: the child rejected the request, died, or did not answer in time.
        """
        with self._lock:
            pid = self._start()
            self._process.limit_time(seconds)
            try:
                with count_child_memory(pid):
                    self._process.send(Question(request))
                    reply = self._process.receive()
            except TimeoutError as error:
                self._process.close()
                raise ProgramError(f"{self._name} did not answer within {seconds:g} s") from error
            except (OSError, msgspec.MsgspecError) as error:
                raise ProgramError(f"{self._name} {self._process.wait_for_end()}") from error
            except BaseException:
                # The pending answer would be read as that of the next request.
                self._process.close()
                raise
        match reply:
            case Finished():
                return reply.answer
            case Refused(is_out_of_memory=True):
                raise OutOfMemory(f"{self._name} was refused memory: {reply.message}")
            case Refused():
                raise ProgramError(reply.message)

    def close(self) -> None:
        """End the child; the next request starts another one."""
        with self._lock, contextlib.suppress(OSError):
            self._process.close()

    def _start(self) -> int:
        """Start the child unless it runs; return its process id."""
        if (pid := self._process.pid) is None:
            try:
                self._process.start()
            except WorkerEnded as error:
                raise ProgramError(f"{self._name} {error}") from error
            pid = self._process.pid
        return pid or 0
