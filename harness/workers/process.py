"""The supervisor's side of a worker process: start it, send a request, read its events, end it.

A process never outlives its supervisor. When it is idle, it sees the channel close. When it is busy
in native code, the kernel ends it: the supervisor alone holds a second socket, whose end sends
SIGIO, and the default action of SIGIO on Linux ends the process. On other systems a busy process
lives until its call ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from harness.errors import WorkerEnded
from harness.workers import served
from harness.workers.protocol import Channel, Finished, Refused

E = TypeVar("E")

# The start includes imports. Between the end of its channel and its exit a process does nothing.
_START_SECONDS = 120.0
_EXIT_SECONDS = 10.0


class WorkerProcess(Generic[E]):
    """A process that imports a module and answers requests with it.

    Attributes:
        is_timed_out: the last request exceeded its time limit, and the process was ended.
        end: how the process ended, to follow its name in a sentence.
    """

    def __init__(
        self,
        module: str | Path,
        events: Any = Finished | Refused,
        *,
        environment: Mapping[str, str] | None = None,
        output: Path | int = subprocess.DEVNULL,
        folder: Path | None = None,
        limit_memory: bool = False,
        python: Sequence[str] = (sys.executable,),
    ) -> None:
        """Configure the process; :meth:`start` starts it.

        Args:
            module: name of a module with a function ``serve`` (:data:`~.served.Serve`), or path of
                a file with a function ``answer`` (:data:`~.served.Answer`).
            events: union of the messages that it sends.
            environment: environment variables to add to those of this process.
            output: file for the output of the process, ``subprocess.DEVNULL``, or the descriptor of
                a stream of this process.
            folder: working folder; by default this process' own.
            limit_memory: limit its address space to the memory of the machine. Otherwise the system
                ends some process when memory runs out. Not for a process that maps more memory than
                it uses.
            python: the command that starts Python (:func:`~.fork_server.python_command`).
        """
        self._module = str(module)
        self._decoder: msgspec.msgpack.Decoder[E] = msgspec.msgpack.Decoder(events)
        self._environment = dict(environment or {})
        self._output = output
        self._folder = folder
        self._limit_memory = limit_memory
        self._python = python
        self._owner = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._lifeline: socket.socket | None = None
        self._deadline: float | None = None
        self.is_timed_out = False
        self.end = "is not running"

    @property
    def pid(self) -> int | None:
        """Process id, or None if it is not running."""
        if not self._is_own or self._process is None:
            return None
        return self._process.pid if self._process.poll() is None else None

    @property
    def _is_own(self) -> bool:
        """Whether this process started it, and not one that this process was forked from."""
        return self._owner == os.getpid()

    def start(self) -> None:
        """Start the process and wait until it is ready; end an earlier one.

        Raises:
            WorkerEnded: it ended, or was not ready in two minutes.
        """
        self.close()
        self._owner, self.is_timed_out = os.getpid(), False
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours)
        self._lifeline, watched = socket.socketpair()
        with theirs, watched, contextlib.ExitStack() as opened:
            output: Any = self._output
            if isinstance(output, Path):
                output = opened.enter_context(output.open("wb"))
            sockets = (theirs.fileno(), watched.fileno())
            self._process = subprocess.Popen(
                [
                    # -P: modules in the working folder must not shadow ours.
                    *(*self._python, "-P", "-m", served.__name__, self._module, *map(str, sockets)),
                    *(["limited"] if self._limit_memory else []),
                ],
                pass_fds=sockets,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                env={
                    # Otherwise older glibc writes errors to the terminal.
                    "LIBC_FATAL_STDERR_": "1",
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                    **self._environment,
                },
            )
        self.limit_time(_START_SECONDS)
        try:
            self._channel.receive_frame(self._deadline)  # Ready
        except TimeoutError:
            self.close()
            raise WorkerEnded(f"did not start in {_START_SECONDS:g} s") from None
        except OSError:
            raise WorkerEnded(f"does not start: it {self.wait_for_end()}") from None
        self.limit_time(None)

    def limit_time(self, seconds: float | None) -> None:
        """Limit the time of the messages from now on; None for no limit."""
        self._deadline = None if seconds is None else time.monotonic() + seconds

    def send(self, message: msgspec.Struct) -> None:
        """Send a request.

        Raises:
            TimeoutError: the time limit is exceeded.
            OSError: the process is gone.
        """
        self._open_channel().send(message, self._deadline)

    def receive(self) -> E:
        """Return the next event.

        Raises:
            TimeoutError: the time limit is exceeded.
            OSError: the process is gone.
            msgspec.MsgspecError: it sent an invalid message.
        """
        return self._decoder.decode(self._open_channel().receive_frame(self._deadline))

    def events(self) -> Iterator[E]:
        """Yield events until the process ends, the time limit is exceeded, or the request is done.

        The last event, :class:`Finished` or :class:`Refused`, is yielded, too. A process that
        exceeds its time limit is aborted: faulthandler writes its stack to the output.
        """
        while True:
            try:
                event = self.receive()
            except TimeoutError:
                self.is_timed_out = True
                self.abort()
                return
            except (OSError, msgspec.MsgspecError):
                self.wait_for_end()
                return
            yield event
            if isinstance(event, Finished | Refused):
                return

    def abort(self) -> None:
        """End the process by SIGABRT; faulthandler writes its stack to the output."""
        if self._process is not None:
            self._process.send_signal(signal.SIGABRT)
        self.wait_for_end()

    def wait_for_end(self) -> str:
        """Wait for a process that closed its channel, and return how it ended."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_EXIT_SECONDS)
        return self.close()

    def close(self) -> str:
        """Kill the process if it is running, and return how it ended.

        After a fork it belongs to the parent, and runs on.
        """
        process, self._process = self._process, None
        ends = (self._channel, self._lifeline)
        self._channel = self._lifeline = None
        if process is not None and self._is_own:
            process.kill()
            self.end = describe_exit(process.wait())
        for each in ends:
            if each is not None:
                each.close()
        return self.end

    def _open_channel(self) -> Channel:
        if self._channel is None:
            raise ConnectionResetError("the process is gone")
        return self._channel


def describe_exit(code: int) -> str:
    """Describe an exit code, to follow a name in a sentence: ``was ended by SIGSEGV``."""
    if code >= 0:
        return f"ended with exit code {code}"
    if -code == signal.SIGKILL:
        return "was ended by SIGKILL, as a system does that runs out of memory"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"
