"""Forks workers from a process that has imported torch and executorch.

A worker imports torch and executorch for three seconds before it collects. A fork server of
:mod:`multiprocessing` imports them once. Replacements of dead workers, and all workers if there are
more than cores, are forked from it in milliseconds and share its memory. The server computes
nothing, so that a fork loses no thread of torch. A session that was forked from a server, or whose
parent announces one, uses that server.

execnet starts a worker with a command line and uses its standard input and output.
:class:`_Worker` replaces that command.
"""

from __future__ import annotations

import ctypes
import itertools
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from multiprocessing import forkserver, popen_forkserver, util
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from typing import Any

from execnet import gateway_io
from execnet.gateway_base import Popen2IO

from harness.vendors.replacements import AttributeReplacer

PRELOADED = ["harness.pytest_plugin.workers.preloaded"]
"""Modules that the server imports; it ignores missing ones."""

_ANNOUNCED = "CONFORM_FORK_SERVER"
"""Environment variable with the Python prefix and the address of the server of a parent process."""

_PR_SET_NAME = 15  # of Linux's prctl
# Longest temporary folder whose sockets fit into the 107 bytes of a socket name on Linux.
_MAX_FOLDER = 107 - len("/pymp-12345678/listener-12345678")

_drop_lock = threading.Lock()

_original_create_io = gateway_io.create_io
_server: Any = vars(forkserver)["_forkserver"]


class ForkedProcess:
    """A process forked from the server, with the interface of :class:`subprocess.Popen`.

    This process does not wait for it at exit.
    """

    def __init__(self, target: Callable[..., None], *given: Any) -> None:
        """Start the process.

        Args:
            target: function to run, importable by name.
            given: arguments; sockets and connections are passed on.

        Raises:
            OSError: no server runs or starts.
        """
        process: Any = get_context().Process(target=target, args=given)
        is_announced = _use_announced_server()
        try:
            try:
                self._process = popen_forkserver.Popen(process)
            except (ConnectionError, FileNotFoundError):
                if not is_announced:
                    raise
                _drop_announced_server()
                self._process = popen_forkserver.Popen(process)
        except EOFError as error:
            raise ChildProcessError("the fork server has ended") from error

    def poll(self) -> int | None:
        """Return the exit code, or the negative signal number; None while the process runs."""
        code: int | None = self._process.poll()
        return code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the process and return its exit code.

        Args:
            timeout: seconds to wait.

        Raises:
            subprocess.TimeoutExpired: the process still runs.
        """
        if (code := self._process.wait(timeout)) is None:
            raise subprocess.TimeoutExpired("a forked process", timeout or 0)
        return int(code)

    def kill(self) -> None:
        """End it."""
        self._process.kill()


class _Worker(Popen2IO):
    """A worker in the form that execnet expects: two pipes and a process."""

    def __init__(self, execmodel: Any) -> None:
        theirs_in, ours_out = multiprocessing.Pipe(duplex=False)
        ours_in, theirs_out = multiprocessing.Pipe(duplex=False)
        errors = Connection(os.dup(2), readable=False)
        self._process = ForkedProcess(
            _run_worker, theirs_in, theirs_out, errors, os.getcwd(), dict(os.environ)
        )
        for end in (theirs_in, theirs_out, errors):
            end.close()
        out = os.fdopen(os.dup(ours_out.fileno()), "wb")
        into = os.fdopen(os.dup(ours_in.fileno()), "rb")
        ours_out.close()
        ours_in.close()
        super().__init__(out, into, execmodel=execmodel)

    def wait(self) -> int:
        """Wait for the process and return its exit code."""
        return self._process.wait()

    def kill(self) -> None:
        """End it."""
        self._process.kill()


def _run_worker(
    into: Connection, out: Connection, errors: Connection, folder: str, environ: Mapping[str, str]
) -> None:
    """Do in the new process what ``python -u -c`` does with execnet's first line."""
    take_over_process(folder, environ, (into.fileno(), out.fileno(), errors.fileno()))
    for end in (into, out, errors):
        end.close()
    exec(eval(sys.stdin.readline()), {"__name__": "__main__"})


def take_over_process(folder: str, environ: Mapping[str, str], streams: Sequence[int]) -> None:
    """Take over the folder and environment of the requesting process, and these file descriptors as
    standard input, output and error."""
    # Prevent multiprocessing from starting another server.
    vars(_server)["ensure_running"] = lambda: None
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    sys.stdin = os.fdopen(0, "r", closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)


def name_process(name: str) -> None:
    """Set the name of this process in process listings; at most 15 bytes."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def make_create_io(by_command: int) -> Callable[..., Any]:
    """Create the replacement of execnet's ``create_io``.

    Args:
        by_command: number of workers to start by a command; later ones are forked.
    """
    started = itertools.count()

    def create_io(spec: Any, execmodel: Any) -> Any:
        if spec.popen and not spec.python and next(started) >= by_command:
            return _Worker(execmodel)
        return _original_create_io(spec, execmodel)

    return create_io


def is_supported() -> bool:
    """Whether forking a process that has loaded torch is safe: on Linux."""
    return sys.platform == "linux"


def get_context() -> ForkServerContext:
    """Return the multiprocessing context whose server has imported :data:`PRELOADED`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    _shorten()
    return context


def _shorten() -> None:
    """Make multiprocessing use /tmp for sockets if the name of TMPDIR is too long."""
    if len(os.fsencode(tempfile.gettempdir())) <= _MAX_FOLDER:
        return
    chosen, tempfile.tempdir = tempfile.tempdir, "/tmp"
    try:
        util.get_temp_dir()  # created once per process
    finally:
        tempfile.tempdir = chosen


def announce(environ: MutableMapping[str, str]) -> None:
    """Make processes with this environment use the server of this one; start it if necessary.

    Does nothing where forking is not supported.
    """
    if not is_supported():
        return
    if not _use_announced_server():
        get_context()
        _server.ensure_running()
    environ[_ANNOUNCED] = os.pathsep.join((sys.prefix, _server._forkserver_address))


def _use_announced_server() -> bool:
    """Use the server that a parent process has announced, if this process has none."""
    prefix, _, address = os.environ.get(_ANNOUNCED, "").partition(os.pathsep)
    if _server._forkserver_address is None and prefix == sys.prefix and address:
        _server._forkserver_address = address
        # A server runs while this pipe is open; only the announcing process holds it.
        _server._forkserver_alive_fd = os.open(os.devnull, os.O_RDONLY)
        vars(_server)["ensure_running"] = lambda: None
    return bool(address) and bool(_server._forkserver_address == address)


def _drop_announced_server() -> None:
    """Forget the announced server, as it has ended, so that this process starts its own."""
    with _drop_lock:
        if os.environ.pop(_ANNOUNCED, None) is None:
            return  # another thread did it
        os.close(_server._forkserver_alive_fd)
        _server._forkserver_address = _server._forkserver_alive_fd = None
        vars(_server).pop("ensure_running", None)


def install(workers: int) -> None:
    """Fork workers of this session from now on.

    All workers are forked if a server runs already or there are more workers than cores. Otherwise
    only replacements are: the first workers import in parallel and need not wait for the server.
    """
    has_server = _use_announced_server() or _server._forkserver_address is not None
    by_command = 0 if has_server or workers > (os.cpu_count() or 1) else workers
    if not by_command:
        get_context()
        _server.ensure_running()  # no effect in forked processes
    AttributeReplacer("workers")(gateway_io, "create_io", make_create_io(by_command))
