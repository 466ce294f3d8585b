"""A child process for native code that runs untrusted bytes; it stays alive between requests.

If such bytes crash the child, the call raises :class:`ProgramError` with the signal's name, and the
next call starts another child. The child imports one file and answers requests with that file's
function ``answer``, a :data:`RequestHandler`. Requests and answers are frames on a socket: kind,
length, bytes. The parent never executes an answer, because the program may control the child.

A child never outlives its parent. When it is idle, it sees the socket close. When it is busy in
native code, the kernel ends it: the parent alone holds a second socket, whose end sends SIGIO, and
the default action of SIGIO on Linux ends the process. On other systems a busy child lives until its
call ends.

The module imports neither torch nor numpy, so that a child starts as fast as its file imports.
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

RequestHandler = Callable[[bytes], bytes]
"""Answers a request in the child's main thread."""

_FRAME = struct.Struct("!BQ")
_READY, _ANSWER, _REFUSAL, _NO_MEMORY = range(4)

# Each frame is read in pieces of at most this size.
_PIECE = 1 << 20


class ChildProcess:
    """A process that imports one file and answers requests; the first request starts it.

    Threads may share a child; it answers one request at a time. After a fork, the forked process
    starts another child.
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
            file: the Python file that it imports, which defines ``answer``.
            name: description of the child in error messages.
            environment: environment variables to add to those of this process.
            limit_memory: limit its address space to the memory of the machine. Otherwise the system
                ends some process when memory runs out. Not for a child that maps more memory than
                it uses.
        """
        self._file = file
        self._name = name
        self._environment = dict(environment or {})
        self._limit_memory = limit_memory
        self._lock = threading.Lock()
        self._owner = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._lifeline: socket.socket | None = None
        atexit.register(self._kill)

    @property
    def pid(self) -> int | None:
        """Process id, or None if the child is not running."""
        alive = self._process is not None and self._process.poll() is None
        return self._process.pid if alive and self._process is not None else None

    def ask(self, request: bytes, seconds: float) -> bytes:
        """Send a request and wait for the answer.

        Args:
            request: bytes for the :data:`RequestHandler`.
            seconds: time limit, without the start of a child.

        Raises:
            OutOfMemory: the child ran out of memory.
            ProgramError: the child rejected the request, died, or did not answer in time.
        """
        with self._lock:
            connection = self._connect()
            deadline = time.monotonic() + seconds
            try:
                with self._count_memory():
                    _send(connection, _ANSWER, request, deadline)
                    kind, answer = _receive(connection, deadline)
            except TimeoutError as error:
                self._end()
                raise ProgramError(f"{self._name} did not answer within {seconds:g} s") from error
            except OSError as error:
                raise ProgramError(f"{self._name} {self._wait_for_end()}") from error
            except BaseException:
                # The pending answer would be read as that of the next request.
                self._end()
                raise
        if kind == _NO_MEMORY:
            text = answer.decode("utf-8", "replace")
            raise OutOfMemory(f"{self._name} was refused memory: {text}")
        if kind == _REFUSAL:
            raise ProgramError(answer.decode("utf-8", "replace"))
        return answer

    def close(self) -> None:
        """End the child; the next request starts another one."""
        with self._lock:
            self._end()

    def _kill(self) -> None:
        """End the child at exit, without the lock: a thread may hold it and wait for an answer."""
        process = self._process
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        process.wait()
        for end in (self._socket, self._lifeline):
            if end is not None:
                end.close()

    def _count_memory(self) -> contextlib.AbstractContextManager[None]:
        """Count the child's memory as memory of the current stage."""
        process = self._process
        return contextlib.nullcontext() if process is None else count_child_memory(process.pid)

    def _connect(self) -> socket.socket:
        """Return the socket of a running child; start the child if necessary."""
        if self._owner != os.getpid():
            # This process was forked: the child belongs to its parent.
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
                    *(["limited"] if self._limit_memory else []),
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
            raise ProgramError(f"{self._name} does not start: it {self._wait_for_end()}") from error
        return self._socket

    def _wait_for_end(self) -> str:
        """End a child that closed its socket, and describe how it ended."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_EXIT_SECONDS)
        return self._end()

    def _end(self) -> str:
        """Kill the child if it is running, and reap it.

        Returns:
            How it ended, to follow its name in a sentence.
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


# The start includes imports. Between the end of its socket and its exit the child does nothing.
_START_SECONDS = 120.0
_EXIT_SECONDS = 10.0


def describe_exit(code: int) -> str:
    """Describe an exit code, to follow a name in a sentence: ``was ended by SIGSEGV``."""
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
    _set_timeout(connection, deadline)
    connection.sendall(_FRAME.pack(kind, len(data)))
    if data:
        connection.sendall(data)


def _receive(connection: socket.socket, deadline: float | None) -> tuple[int, bytes]:
    kind, size = _FRAME.unpack(_receive_bytes(connection, _FRAME.size, deadline))
    return kind, _receive_bytes(connection, size, deadline)


def _receive_bytes(connection: socket.socket, size: int, deadline: float | None) -> bytes:
    pieces: list[bytes] = []
    while size:
        _set_timeout(connection, deadline)
        piece = connection.recv(min(size, _PIECE))
        if not piece:
            raise ConnectionResetError("the other side is gone")
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _set_timeout(connection: socket.socket, deadline: float | None) -> None:
    if deadline is None:
        return
    if (remaining := deadline - time.monotonic()) <= 0:
        raise TimeoutError
    connection.settimeout(remaining)


def _serve(connection: socket.socket, answer: RequestHandler) -> None:
    """Answer requests until the parent is gone. An exception rejects its request."""
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
    """Make the kernel end this process, by SIGIO, when the other end of the socket closes."""
    if sys.platform != "linux":
        return
    import fcntl

    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _main(file: str, connection: str, lifeline: str, limited: str = "") -> None:
    import resource

    # Crashes are expected: write no core files.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A keyboard interrupt goes to the whole process group; the parent handles it.
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
