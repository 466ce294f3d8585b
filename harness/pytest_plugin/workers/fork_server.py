"""Workers forked from a process that has imported what each of them would import first.

A worker imports torch and executorch for three seconds before it collects. Here one process of the
session, a fork server of :mod:`multiprocessing`, does so once; workers that stand for dead ones,
and all where there are more than cores, are forked from it in milliseconds and share its memory. It
computes nothing, so that no thread of torch's is lost by a fork. A session that was itself forked
from such a server asks the same one, and so does what runs below one that announces it.

execnet starts a worker by a command line and speaks to it over its standard input and output.
:class:`_Worker` stands for that command; all else of execnet and xdist is as it was.
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
"""Modules that the server imports; those that are not there are left out."""

_ANNOUNCED = "CONFORM_FORK_SERVER"
"""A variable by which processes find the server of one above them: of which Python, and where."""

_PR_SET_NAME = 15  # of Linux's prctl
# The longest name of a folder for a socket in a folder of multiprocessing's: Linux takes 107 bytes.
_LONGEST = 107 - len("/pymp-12345678/listener-12345678")

_disowning = threading.Lock()

_upstream = gateway_io.create_io
_server: Any = vars(forkserver)["_forkserver"]


class Forked:
    """A process forked from the server, with what is used here of :class:`subprocess.Popen`. It is
    not waited for when this one ends."""

    def __init__(self, target: Callable[..., None], *given: Any) -> None:
        """Start it.

        Args:
            target: what it runs, found by its name there.
            given: its arguments; sockets and connections are handed on.

        Raises:
            OSError: there is no server, and none starts.
        """
        process: Any = server().Process(target=target, args=given)
        is_announced = _adopt()
        try:
            try:
                self._process = popen_forkserver.Popen(process)
            except (ConnectionError, FileNotFoundError):
                if not is_announced:
                    raise
                _disown()
                self._process = popen_forkserver.Popen(process)
        except EOFError as error:
            raise ChildProcessError("the process that others are forked from has ended") from error

    def poll(self) -> int | None:
        """Its exit code, or the signal that ended it below 0; None as long as it goes on."""
        code: int | None = self._process.poll()
        return code

    def wait(self, timeout: float | None = None) -> int:
        """The same, once it has ended.

        Args:
            timeout: seconds to wait for that.

        Raises:
            subprocess.TimeoutExpired: it goes on.
        """
        if (code := self._process.wait(timeout)) is None:
            raise subprocess.TimeoutExpired("a forked process", timeout or 0)
        return int(code)

    def kill(self) -> None:
        """End it."""
        self._process.kill()


class _Worker(Popen2IO):
    """A worker as execnet sees it: two pipes, and a process to wait for or kill."""

    def __init__(self, execmodel: Any) -> None:
        theirs_in, ours_out = multiprocessing.Pipe(duplex=False)
        ours_in, theirs_out = multiprocessing.Pipe(duplex=False)
        errors = Connection(os.dup(2), readable=False)
        self._process = Forked(_serve, theirs_in, theirs_out, errors, os.getcwd(), dict(os.environ))
        for end in (theirs_in, theirs_out, errors):
            end.close()
        out = os.fdopen(os.dup(ours_out.fileno()), "wb")
        into = os.fdopen(os.dup(ours_in.fileno()), "rb")
        ours_out.close()
        ours_in.close()
        super().__init__(out, into, execmodel=execmodel)

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        return self._process.wait()

    def kill(self) -> None:
        """End it."""
        self._process.kill()


def _serve(
    into: Connection, out: Connection, errors: Connection, folder: str, environ: Mapping[str, str]
) -> None:
    """What ``python -u -c`` does with execnet's first line, in the new process."""
    enter(folder, environ, (into.fileno(), out.fileno(), errors.fileno()))
    for end in (into, out, errors):
        end.close()
    exec(eval(sys.stdin.readline()), {"__name__": "__main__"})


def enter(folder: str, environ: Mapping[str, str], streams: Sequence[int]) -> None:
    """Take over the folder and the environment of whoever asked for this process, and these file
    descriptors as standard input, output and error."""
    # It knows where the server listens, and would start one of its own all the same.
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
    """Have what lists processes show this one under a name, of at most 15 bytes."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def creating(alone: int) -> Callable[..., Any]:
    """What stands for execnet's ``create_io``: that many workers are started by its command, and
    those that follow are forked."""
    begun = itertools.count()

    def create_io(spec: Any, execmodel: Any) -> Any:
        if spec.popen and not spec.python and next(begun) >= alone:
            return _Worker(execmodel)
        return _upstream(spec, execmodel)

    return create_io


def is_possible() -> bool:
    """Whether forking what has loaded these libraries is safe: on Linux."""
    return sys.platform == "linux"


def server() -> ForkServerContext:
    """Processes of this context are forked from what has imported :data:`PRELOADED`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    _shorten()
    return context


def _shorten() -> None:
    """Have multiprocessing keep sockets in /tmp where the name of TMPDIR is too long for one."""
    if len(os.fsencode(tempfile.gettempdir())) <= _LONGEST:
        return
    chosen, tempfile.tempdir = tempfile.tempdir, "/tmp"
    try:
        util.get_temp_dir()  # made once
    finally:
        tempfile.tempdir = chosen


def announce(environ: MutableMapping[str, str]) -> None:
    """Have processes with this environment ask the server of this one, which begins to import now
    unless there is one already; nothing where forking is not possible."""
    if not is_possible():
        return
    if not _adopt():
        server()
        _server.ensure_running()
    environ[_ANNOUNCED] = os.pathsep.join((sys.prefix, _server._forkserver_address))


def _adopt() -> bool:
    """Ask the server that a process above has announced, where this one has none of its own."""
    prefix, _, address = os.environ.get(_ANNOUNCED, "").partition(os.pathsep)
    if _server._forkserver_address is None and prefix == sys.prefix and address:
        _server._forkserver_address = address
        # By this a server knows who needs it: whoever has announced it, not this process.
        _server._forkserver_alive_fd = os.open(os.devnull, os.O_RDONLY)
        vars(_server)["ensure_running"] = lambda: None
    return bool(address) and bool(_server._forkserver_address == address)


def _disown() -> None:
    """Have a server of this process's own, as the one that was announced is gone."""
    with _disowning:
        if os.environ.pop(_ANNOUNCED, None) is None:
            return  # another thread was first
        os.close(_server._forkserver_alive_fd)
        _server._forkserver_address = _server._forkserver_alive_fd = None
        vars(_server).pop("ensure_running", None)


def install(workers: int) -> None:
    """Fork workers of this session from now on: all where there is a server already, or more of
    them than cores, so that it begins to import now; else those that stand for dead ones, as the
    first import side by side what a server would keep them waiting for."""
    has_server = _adopt() or _server._forkserver_address is not None
    alone = 0 if has_server or workers > (os.cpu_count() or 1) else workers
    if not alone:
        server()
        _server.ensure_running()  # what "enter" has replaced, it leaves alone
    AttributeReplacer("workers")(gateway_io, "create_io", creating(alone))
