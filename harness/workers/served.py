"""The worker's side (``python -m harness.workers.served``): import a module and serve requests.

The module of a client of this package has a function ``serve``, which may send events. A file from
elsewhere has a function ``answer``; any exception of it refuses the request.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import msgspec

from harness.errors import ConformError, ProgramError, describe
from harness.workers.memory import is_out_of_memory
from harness.workers.protocol import Channel, Finished, Ready, Refused

Send = Callable[[msgspec.Struct], None]
Serve = Callable[[bytes, Send], None]
"""Does a request and sends its events. A :class:`ConformError` refuses the request; any other
exception ends the process."""

Answer = Callable[[bytes], bytes]
"""Answers a request in the main thread."""


def main(module: str, connection: str, lifeline: str, limited: str = "") -> None:
    """Serve requests until the supervisor is gone.

    Args:
        module: name of a module, or path of a file.
        connection: descriptor of the socket for messages.
        lifeline: descriptor of a socket that closes when the supervisor ends.
        limited: if not empty, limit the address space to the memory of the machine.
    """
    # Crashes are expected: write no core files.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A keyboard interrupt goes to the whole process group; the supervisor handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if limited:
        _limit_memory()
    with (
        socket.socket(fileno=int(lifeline)) as watched,
        socket.socket(fileno=int(connection)) as requests,
        contextlib.suppress(ConnectionError),
    ):
        _die_with_supervisor(watched)
        channel = Channel(requests)
        serve = _load(module)
        channel.send(Ready())
        while True:
            request = channel.receive_frame()
            try:
                serve(request, channel.send)
            except ConformError as error:
                channel.send(Refused(str(error)))


def _load(module: str) -> Serve:
    if not module.endswith(".py"):
        serve: Serve = importlib.import_module(module).serve
        return serve
    served = _load_file(Path(module))

    def answer(request: bytes, send: Send) -> None:
        try:
            reply = Finished(served.answer(msgspec.msgpack.decode(request, type=Question).data))
        except Exception as error:
            text = str(error) if isinstance(error, ProgramError) else describe(error)
            send(Refused(text, is_out_of_memory(error)))
        else:
            send(reply)

    return answer


class Question(msgspec.Struct, frozen=True):
    """A request to a file's function ``answer``."""

    data: bytes


def _load_file(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("served", file)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _die_with_supervisor(lifeline: socket.socket) -> None:
    """Make the kernel end this process, by SIGIO, when the other end of the socket closes."""
    if sys.platform != "linux":
        return
    import fcntl

    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _limit_memory() -> None:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        total = min(total, hard)
    resource.setrlimit(resource.RLIMIT_AS, (total, hard))


if __name__ == "__main__":
    main(*sys.argv[1:])
