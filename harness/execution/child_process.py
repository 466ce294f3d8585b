"""A warm child process for native code that runs bytes which others wrote.

What such bytes crash is the child: the call raises :class:`ProgramError` naming the signal, and
the next call starts another. The child imports one file and answers with its function ``answer``,
an :data:`Answer`; requests and answers are frames on a socket, a kind and a length before the
bytes. The parent executes nothing of an answer: the child may do the bidding of what it ran.

A child never outlives its parent. Idle, it sees the socket close. Busy in native code, where no
Python runs, it is ended by the kernel: a second socket is held by the parent alone and sends
SIGIO when it closes, whose default action on Linux is to end the process. (Elsewhere a busy
child lives until its call ends.)

Imports neither torch nor numpy, so that a child starts in the time that its own file takes.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.errors import OutOfMemory, ProgramError, describe
from harness.execution.memory import count_child_memory, is_out_of_memory

Answer = Callable[[bytes], bytes]
"""What a child does with a request. It runs in the child's main thread."""

_FRAME = struct.Struct("!BQ")
_READY, _ANSWER, _REFUSAL, _NO_MEMORY = range(4)

# Each frame is read in pieces of at most this size.
_PIECE = 1 << 20


class ChildProcess:
    """A process that imports one file and answers requests; started by the first of them.

    Threads may share one: their requests take turns. After a fork, the forked process starts a
    child of its own.
    """

    def __init__(
        self,
        file: Path,
        name: str,
        environment: Mapping[str, str] | None = None,
        *,
        limited: bool = False,
    ) -> None:
        """Describe the child.

        Args:
            file: what it imports; defines ``answer``.
            name: what runs in it, for messages.
            environment: variables it gets besides those of this process.
            limited: refuse it allocations beyond the memory of the machine, which would otherwise
                end some process of the system's choice; not for one that maps more than it uses.
        """
        self._file = file
        self._name = name
        self._environment = dict(environment or {})
        self._limited = limited
        self._turn = threading.Lock()
        self._owner = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._lifeline: socket.socket | None = None
        atexit.register(self._kill)

    @property
    def pid(self) -> int | None:
        """Of the process, if it lives."""
        alive = self._process is not None and self._process.poll() is None
        return self._process.pid if alive and self._process is not None else None

    def ask(self, request: bytes, seconds: float) -> bytes:
        """Send a request and wait for the answer.

        Args:
            request: what :data:`Answer` gets.
            seconds: how long it may take, starting a child not included.

        Raises:
            OutOfMemory: the child was refused memory for it.
            ProgramError: the child refuses the request, died of it, or did not answer in time.
        """
        with self._turn:
            connection = self._connected()
            deadline = time.monotonic() + seconds
            try:
                with self._counted():
                    _send(connection, _ANSWER, request, deadline)
                    kind, answer = _receive(connection, deadline)
            except TimeoutError as error:
                self._end()
                raise ProgramError(f"{self._name} did not answer within {seconds:g} s") from error
            except OSError as error:
                raise ProgramError(f"{self._name} {self._ended()}") from error
            except BaseException:
                # Interrupted before the answer, which would be taken for that of the next request.
                self._end()
                raise
        if kind == _NO_MEMORY:
            text = answer.decode("utf-8", "replace")
            raise OutOfMemory(f"{self._name} was refused memory: {text}")
        if kind == _REFUSAL:
            raise ProgramError(answer.decode("utf-8", "replace"))
        return answer

    def close(self) -> None:
        """End the process, if there is one; the next request starts another."""
        with self._turn:
            self._end()

    def _kill(self) -> None:
        """At exit: without taking turns, as a thread may be waiting for an answer."""
        process = self._process
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        process.wait()
        for end in (self._socket, self._lifeline):
            if end is not None:
                end.close()

    def _counted(self) -> contextlib.AbstractContextManager[None]:
        """What the child takes meanwhile is memory of the stage that asks."""
        process = self._process
        return contextlib.nullcontext() if process is None else count_child_memory(process.pid)

    def _connected(self) -> socket.socket:
        """The socket of a living child, started if need be."""
        if self._owner != os.getpid():
            # Forked: the child is the parent's to end.
            self._process = self._socket = self._lifeline = None
        if self._socket is not None and self.pid is not None:
            return self._socket
        self._end()
        self._owner = os.getpid()
        self._socket, theirs = socket.socketpair()
        self._lifeline, watched = socket.socketpair()
        with theirs, watched:
            sockets = (theirs.fileno(), watched.fileno())
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", __name__, str(self._file), *map(str, sockets)),
                    *(["limited"] if self._limited else []),
                ],
                pass_fds=sockets,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                    **self._environment,
                },
            )
        try:
            _receive(self._socket, time.monotonic() + _START_SECONDS)
        except TimeoutError as error:
            self._end()
            raise ProgramError(f"{self._name} did not start in {_START_SECONDS:g} s") from error
        except OSError as error:
            raise ProgramError(f"{self._name} does not start: it {self._ended()}") from error
        return self._socket

    def _ended(self) -> str:
        """How a process ended that closed its socket."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_EXIT_SECONDS)
        return self._end()

    def _end(self) -> str:
        """Kill the process if it lives, and reap it.

        Returns:
            How it ended.
        """
        process, self._process = self._process, None
        sockets = (self._socket, self._lifeline)
        self._socket = self._lifeline = None
        if process is not None and self._owner == os.getpid():
            process.kill()
            process.wait()
        for end in sockets:
            if end is not None:
                end.close()
        if process is None or process.returncode is None:
            return "is not running"
        return describe_exit(process.returncode)


# A process that imports; between the end of its socket and its own it has nothing to do.
_START_SECONDS = 120.0
_EXIT_SECONDS = 10.0


def describe_exit(code: int) -> str:
    """What a process's exit code says, after its name: ``was ended by SIGSEGV``."""
    if code >= 0:
        return f"ended with exit code {code}"
    if -code == signal.SIGKILL:
        return "was ended by SIGKILL, as a system does that runs out of memory"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"


def _limit_memory() -> None:
    import resource

    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        total = min(total, hard)
    resource.setrlimit(resource.RLIMIT_AS, (total, hard))


def _send(connection: socket.socket, kind: int, data: bytes, deadline: float | None) -> None:
    _limit(connection, deadline)
    connection.sendall(_FRAME.pack(kind, len(data)))
    if data:
        connection.sendall(data)


def _receive(connection: socket.socket, deadline: float | None) -> tuple[int, bytes]:
    kind, size = _FRAME.unpack(_exactly(connection, _FRAME.size, deadline))
    return kind, _exactly(connection, size, deadline)


def _exactly(connection: socket.socket, size: int, deadline: float | None) -> bytes:
    pieces: list[bytes] = []
    while size:
        _limit(connection, deadline)
        piece = connection.recv(min(size, _PIECE))
        if not piece:
            raise ConnectionResetError("the other side is gone")
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _limit(connection: socket.socket, deadline: float | None) -> None:
    if deadline is None:
        return
    if (remaining := deadline - time.monotonic()) <= 0:
        raise TimeoutError
    connection.settimeout(remaining)


def _serve(connection: socket.socket, answer: Answer) -> None:
    """Answer requests until the parent is gone. An exception refuses its request."""
    _send(connection, _READY, b"", None)
    while True:
        _, request = _receive(connection, None)
        try:
            kind, frame = _ANSWER, answer(request)
        except ProgramError as error:
            kind, frame = _REFUSAL, str(error).encode()
        except Exception as error:
            kind = _NO_MEMORY if is_out_of_memory(error) else _REFUSAL
            frame = describe(error).encode()
        _send(connection, kind, frame, None)


def die_with_parent(lifeline: socket.socket) -> None:
    """Have the kernel send SIGIO when the other end closes, and let it have its default action."""
    if sys.platform != "linux":
        return
    import fcntl

    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _main(file: str, connection: str, lifeline: str, limited: str = "") -> None:
    import resource

    # Crashing is what the process is for: no core files.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # An interrupt from the keyboard goes to the whole group; what to do is for the parent to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if limited:
        _limit_memory()
    with (
        socket.socket(fileno=int(lifeline)) as watched,
        socket.socket(fileno=int(connection)) as requests,
    ):
        die_with_parent(watched)
        spec = importlib.util.spec_from_file_location("served", file)
        if spec is None or spec.loader is None:
            raise SystemExit(f"{file} is no Python file")
        served = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = served
        spec.loader.exec_module(served)
        with contextlib.suppress(ConnectionError):
            _serve(requests, served.answer)


if __name__ == "__main__":
    _main(*sys.argv[1:])
