"""Fork Python processes from a process that has imported torch and executorch (Linux only).

:func:`python_command` returns a command that behaves like ``python`` with the options that workers
are started with. It starts :mod:`.forked_python`, which asks the server for a process and stands
for it: it passes on its arguments, folder, environment and file descriptors, ends as the process
ends, and takes the process with it when it is killed. So whatever starts a Python process, such as
xdist or :mod:`subprocess`, can start a forked one.

The server computes nothing, so that a fork loses no thread of torch. It ends with the process that
started it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import functools
import importlib
import marshal
import os
import runpy
import secrets
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from harness.workers import forked_python

ADDRESS_VARIABLE = "CONFORM_FORK_SERVER"
"""Environment variable with the Python prefix and the address of the server of a parent process."""

PRELOADED = "harness.pytest_plugin.workers.preloaded"
"""The module that a server imports."""

# Not ``-m``: forked processes import this module by its name, and the two must be one.
_COMMAND = """
import os, sys
paths = sys.path[:]
sys.path[:] = sys.argv[1].split(os.pathsep)
from harness.workers.fork_server import main
main(paths, *sys.argv[2:])
"""
_PR_SET_NAME, _PR_SET_PDEATHSIG = 15, 1  # of Linux's prctl
_REQUEST_SECONDS = 10.0
# Descriptors of a request are moved here before they get their final numbers.
_FREE_DESCRIPTORS = 512
_BACKLOG = 64


def is_supported() -> bool:
    """Whether forking a process that has loaded torch is safe: on Linux."""
    return sys.platform == "linux"


def python_command() -> list[str]:
    """Return the command of a forked Python process; of a new one where forking is not supported.

    The server is the one that a parent process announced, or one that this process starts.
    """
    if not is_supported():
        return [sys.executable]
    # Without site-packages the command takes 20 ms.
    address = _find_announced() or _start_server(PRELOADED)
    return [sys.executable, "-S", "-E", "-s", forked_python.__file__, address]


def is_announced() -> bool:
    """Whether a parent process announced a server."""
    return _find_announced() is not None


def announce(environ: MutableMapping[str, str], preload: str = PRELOADED) -> None:
    """Make processes with this environment use the server of this process.

    Does nothing where forking is not supported.

    Args:
        environ: the environment; gets a variable.
        preload: name of the module that a new server imports.
    """
    if is_supported():
        address = _find_announced() or _start_server(preload)
        environ[ADDRESS_VARIABLE] = os.pathsep.join((sys.prefix, address))


def name_process(name: str) -> None:
    """Set the name of this process in process listings; at most 15 bytes."""
    if is_supported():
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def end_with_parent(parent: int) -> None:
    """Let the system kill this forked process when its parent ends; end it if that has happened.

    Args:
        parent: process id of the parent.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _find_announced() -> str | None:
    prefix, _, address = os.environ.get(ADDRESS_VARIABLE, "").partition(os.pathsep)
    return address if address and prefix == sys.prefix and is_supported() else None


@functools.cache
def _start_server(preload: str) -> str:
    """Start the server of this process, and return its address; it imports meanwhile."""
    address = f"conform-{secrets.token_hex(16)}"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0{address}")
    listener.listen(_BACKLOG)
    lifeline, watched = socket.socketpair()
    descriptors = (listener.fileno(), watched.fileno())
    with listener, watched:
        process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-c", _COMMAND, os.pathsep.join(filter(None, sys.path))),
                *(preload, *map(str, descriptors)),
            ],
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
        )

    def end() -> None:
        lifeline.close()
        process.kill()
        process.wait()

    atexit.register(end)
    return address


@dataclass(frozen=True, eq=False)
class _Forked:
    """A forked process: its id, a descriptor of it, and the connection of its command."""

    pid: int
    descriptor: int
    connection: socket.socket


class _Server:
    """Forks a process for each connection."""

    def __init__(
        self, listener: socket.socket, lifeline: socket.socket, installed: Sequence[str]
    ) -> None:
        self._pid = os.getpid()
        self._installed = installed
        self._listener, self._lifeline = listener, lifeline
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(lifeline, selectors.EVENT_READ)
        self._running: set[_Forked] = set()

    def serve(self) -> None:
        """Fork processes until the owner ends."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._lifeline:
                    return
                if key.fileobj is self._listener:
                    self._accept()
                elif key.data in self._running:  # its other descriptor may have been ready, too
                    self._end(key.data, is_command_gone=key.fileobj is key.data.connection)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        connection.settimeout(_REQUEST_SECONDS)
        try:
            _, user, _ = struct.unpack(
                "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            )
            if user != os.getuid():
                raise PermissionError("another user")
            request, received = forked_python.receive_request(connection)
        except OSError:
            connection.close()
            return
        if (pid := os.fork()) == 0:
            self._close_descriptors()
            connection.close()
            _become(marshal.loads(request), received, self._pid, self._installed)
        for descriptor in received:
            os.close(descriptor)
        forked = _Forked(pid, os.pidfd_open(pid), connection)
        self._running.add(forked)
        for each in (forked.descriptor, connection):
            self._selector.register(each, selectors.EVENT_READ, forked)

    def _end(self, forked: _Forked, *, is_command_gone: bool) -> None:
        """Report the end of a process, or end the process whose command has ended."""
        if is_command_gone:
            os.kill(forked.pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(forked.pid, 0)[1])
        self._running.remove(forked)
        for each in (forked.descriptor, forked.connection):
            self._selector.unregister(each)
        os.close(forked.descriptor)
        with contextlib.suppress(OSError):
            forked.connection.sendall(struct.pack("i", code))
        forked.connection.close()

    def _close_descriptors(self) -> None:
        for forked in self._running:
            os.close(forked.descriptor)
            forked.connection.close()
        self._selector.close()
        self._listener.close()
        self._lifeline.close()


def _become(
    request: Mapping[str, Any], received: Sequence[int], server: int, installed: Sequence[str]
) -> NoReturn:
    """Become the process of a request: run its arguments and end."""
    code = 1
    try:
        end_with_parent(server)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        atexit._clear()  # handlers of the server's imports; those of the process itself run
        _take_descriptors(request["descriptors"], received)
        os.environ.clear()
        os.environ.update(request["environ"])
        os.chdir(request["folder"])
        sys.stdin = os.fdopen(0, "r", closefd=False)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        try:
            _run(request["arguments"], installed)
            code = 0
        except SystemExit as error:
            code = _to_exit_code(error.code)
        except BaseException:
            traceback.print_exc()
        threading._shutdown()  # type: ignore[attr-defined]  # wait for threads, as Python does
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    finally:
        os._exit(code)


def _take_descriptors(numbers: Sequence[int], received: Sequence[int]) -> None:
    """Give descriptors the numbers that they had in the requesting process."""
    moved = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, _FREE_DESCRIPTORS) for each in received]
    for each in received:
        os.close(each)
    for number, each in zip(numbers, moved, strict=True):
        os.dup2(each, number)
        os.close(each)


def _to_exit_code(code: object) -> int:
    if code is None or isinstance(code, int):
        return int(code or 0) & 0xFF
    print(code, file=sys.stderr)
    return 1


def _run(arguments: list[str], installed: Sequence[str]) -> None:
    """Do as ``python`` does with these arguments."""
    options, kind, target, rest = forked_python.parse(arguments)
    asked = os.environ.get("PYTHONWARNINGS", "")
    sys.warnoptions[:] = [*filter(None, asked.split(","))]
    if asked == "ignore":
        warnings.simplefilter("ignore")
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [
        *([] if "-P" in options else [os.getcwd() if kind == "-m" else ""]),
        *filter(None, paths),
        *installed,
    ]
    sys.argv = [kind, *rest]
    if kind == "-c":
        exec(target, {"__name__": "__main__"})
    else:
        runpy.run_module(target, run_name="__main__", alter_sys=True)


def _find_installed(paths: Sequence[str]) -> list[str]:
    """Return the entries of a new process' ``sys.path`` that do not come from PYTHONPATH.

    Entries of ``.pth`` files, such as those of editable installs, may be outside of the prefix.
    """
    given = set(os.environ.get("PYTHONPATH", "").split(os.pathsep))
    base = (sys.prefix, sys.base_prefix)
    return [path for path in paths if path not in given or path.startswith(base)]


def main(paths: Sequence[str], preload: str, listener: str, lifeline: str) -> None:
    """Import a module, then fork processes until the owner ends.

    Args:
        paths: ``sys.path`` as Python made it; the present one is the owner's.
        preload: name of the module.
        listener: descriptor of the listening socket.
        lifeline: descriptor of a socket that closes when the owner ends.
    """
    # A keyboard interrupt goes to the whole process group: the forked processes handle it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.pop(ADDRESS_VARIABLE, None)
    importlib.import_module(preload)
    name_process(Path(__file__).stem)
    connections, owner = (socket.socket(fileno=int(each)) for each in (listener, lifeline))
    _Server(connections, owner, _find_installed(paths)).serve()
