"""Workers forked from a process that has imported what each of them would import first.

A worker imports torch and executorch for three seconds before it collects. Here one process of the
session, a fork server of :mod:`multiprocessing`, does so once; workers that stand for dead ones,
and all where there are more than cores, are forked from it in milliseconds and share its memory. It
computes nothing, so that no thread of torch's is lost by a fork. A session that was itself forked
from such a server asks the same one.

execnet starts a worker by a command line and speaks to it over its standard input and output.
:class:`_Forked` stands for that command; all else of execnet and xdist is as it was.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import forkserver, process
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from typing import Any

from execnet import gateway_io
from execnet.gateway_base import Popen2IO

PRELOADED = ["harness.collection.workers.preloaded"]
"""Modules that the server imports; those that are not there are left out."""

_upstream = gateway_io.create_io


class _Forked(Popen2IO):
    """A worker as execnet sees it: two pipes, and a process to wait for or kill."""

    def __init__(self, execmodel: Any) -> None:
        context = server()
        theirs_in, ours_out = context.Pipe(duplex=False)
        ours_in, theirs_out = context.Pipe(duplex=False)
        errors = Connection(os.dup(2), readable=False)
        given = (theirs_in, theirs_out, errors, os.getcwd(), dict(os.environ))
        self._process = context.Process(target=_serve, args=given)
        self._process.start()
        # A worker that hangs is killed by its gateway; this process is not to wait for it at exit.
        vars(process)["_children"].discard(self._process)
        for end in (theirs_in, theirs_out, errors):
            end.close()
        out = os.fdopen(os.dup(ours_out.fileno()), "wb")
        into = os.fdopen(os.dup(ours_in.fileno()), "rb")
        ours_out.close()
        ours_in.close()
        super().__init__(out, into, execmodel=execmodel)

    def wait(self) -> int | None:
        """Its exit code, once it has ended."""
        self._process.join()
        code: int | None = self._process.exitcode
        return code

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
    vars(forkserver._forkserver)["ensure_running"] = lambda: None
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    sys.stdin = os.fdopen(0, "r", closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)


def creating(alone: int) -> Callable[..., Any]:
    """What stands for execnet's ``create_io``: that many workers are started by its command, and
    those that follow are forked."""
    begun = itertools.count()

    def create_io(spec: Any, execmodel: Any) -> Any:
        if spec.popen and not spec.python and next(begun) >= alone:
            return _Forked(execmodel)
        return _upstream(spec, execmodel)

    return create_io


def is_possible() -> bool:
    """Whether forking what has loaded these libraries is safe: on Linux."""
    return sys.platform == "linux"


def server() -> ForkServerContext:
    """Processes of this context are forked from what has imported :data:`PRELOADED`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def install(workers: int) -> None:
    """Fork workers of this session from now on: all where there is a server already, or more of
    them than cores, so that it begins to import now; else those that stand for dead ones, as the
    first import side by side what a server would keep them waiting for."""
    has_server = forkserver._forkserver._forkserver_address is not None  # type: ignore[attr-defined]
    alone = 0 if has_server or workers > (os.cpu_count() or 1) else workers
    if not alone:
        server()
        forkserver._forkserver.ensure_running()  # what "enter" has replaced, it leaves alone
    gateway_io.create_io = creating(alone)
