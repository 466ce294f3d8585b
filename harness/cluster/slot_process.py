"""A process that runs cells of this checkout for a worker: forked from one that has imported what
it needs, where that is possible, else ``python -m harness.cluster.slot_process``.

It is handed units of work on a socket and tells on it what becomes of their cells. A cell that
crashes, takes too long or too much memory ends the process; the worker starts another.
"""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import msgspec

from harness.cluster.messages import Began, Ended, Event, Finished, Hello, Refused, Unit
from harness.errors import ConformError, UsageError
from harness.execution.child_process import die_with_parent
from harness.execution.memory import GIB
from harness.pytest_plugin.workers import fork_server
from harness.record.host import environment
from harness.record.target import cell_id
from harness.session import run_one
from harness.session.discovery import Suite, is_suite, load_suite
from harness.vendors.quiet import quiet_imports, silence_vendors
from harness.workers.crash_record import stack_of
from harness.workers.worker_status import Board, Doing

if TYPE_CHECKING:
    from harness.pipeline.shared_case_work import SharedCaseWork

CALLED = "conform-cells"
"""The name of such a process, for ``ps`` and ``top``."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker tells its process as it starts.

    Attributes:
        root: the checkout.
        logs: the folder of its board and its stack; all processes of a worker share it.
        name: its name there.
        room: bytes that the cells of all processes of a worker may take together.
        speed: whether torch is kept quick.
    """

    root: str
    logs: str
    name: str
    room: int = 0
    speed: bool = True


class _Process:
    """This process: what it has loaded, and where it tells what it does."""

    def __init__(self, setting: Setting, stack: TextIO, shared_work: SharedCaseWork) -> None:
        self.setting = setting
        self.stack = stack
        self.shared_work = shared_work
        self.board = Board(Path(setting.logs), setting.name)

    def run(self, unit: Unit, tell: Callable[[Event], None]) -> None:
        """Run the cells of a unit, and tell of each.

        Raises:
            ConformError: this checkout has another suite, or none of that name, or no such case.
        """
        from harness.model import registry

        suite = self._suite(unit)
        case = next((each for each in suite.cases if each.name == unit.case), None)
        if case is None:
            raise UsageError(f"{unit.file} has no case {unit.case} here")
        on = {cell_id(case.name, target): target
              for target in registry.targets_of(case, unit.asked.targets)}  # fmt: skip
        for name in unit.cells:
            if name not in on:
                raise UsageError(f"{unit.case} does not run on the target of {name} here")
            budget = round(GIB * max(unit.cell_memory, case.memory))
            doing = Doing(
                pid=os.getpid(),
                cell=name,
                budget=min(budget, self.setting.room),
                asked=budget,
            )
            meter = self.board.meter(doing)
            with (
                self.board.admitted(
                    msgspec.structs.replace(doing, base=meter.base), self.setting.room
                ),
                self._timed(unit.asked.cell_timeout),
            ):
                tell(Began(name))
                cell, claim = run_one.run(
                    case,
                    on[name],
                    suite,
                    unit.asked,
                    shared_work=self.shared_work,
                    worker=self.setting.name,
                    meter=meter,
                    board=self.board,
                )
            tell(Ended(name, cell.to_json(), None if claim is None else claim.to_json()))

    def _suite(self, unit: Unit) -> Suite:
        """The suite of a unit, of this checkout: a unit names a file, and brings none."""
        root = Path(self.setting.root)
        path = (root / unit.file).resolve()
        if not path.is_relative_to(root) or not path.is_file() or not is_suite(path):
            raise UsageError(f"{unit.file} is no suite of this checkout")
        if hashlib.sha256(path.read_bytes()).hexdigest() != unit.digest:
            raise UsageError(f"{unit.file} is another file here than where the run was started")
        return load_suite(path)

    @contextmanager
    def _timed(self, seconds: float) -> Iterator[None]:
        """End the process when a cell takes too long, even inside native code."""
        self.stack.seek(0)
        self.stack.truncate()
        faulthandler.dump_traceback_later(seconds, exit=True, file=self.stack)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


def hello(root: Path) -> Hello:
    """What this process is, once it has loaded all vendors."""
    from harness import vendors
    from harness.model import registry
    from harness.model.backend import Delegating
    from harness.pipeline import speed

    with run_one.vendor_warnings_ignored():
        backends = {name: registry.backend(name) for name in registry.names()}
        return Hello(
            environment=environment(root),
            backends=registry.states(backends, None),
            delegates={name: one.delegate for name, one in backends.items()
                       if isinstance(one, Delegating)},
            slow=dict(speed.find_disabled_parts()),
            gone=dict(vendors.gone()),
        )  # fmt: skip


def _serve(setting: Setting, connection: socket.socket) -> None:
    with connection.makefile("rb") as orders:

        def tell(event: Event) -> None:
            connection.sendall(msgspec.json.encode(event) + b"\n")

        with stack_of(Path(setting.logs), setting.name).open("w+", encoding="utf-8") as stack:
            faulthandler.enable(file=stack)
            import torch

            from harness.pipeline import speed
            from harness.pipeline.shared_case_work import SharedCaseWork

            # As in a local run with a worker a core: a sum shows how many threads shared it.
            torch.set_num_threads(1)
            if setting.speed:
                speed.prepare()
            greeting = hello(Path(setting.root))
            if setting.speed:
                speed.install()
                speed.tune_garbage_collector()
            tell(greeting)
            process = _Process(setting, stack, SharedCaseWork())
            for line in orders:
                try:
                    process.run(msgspec.json.decode(line, type=Unit), tell)
                    tell(Finished())
                except (ConformError, OSError) as error:
                    tell(Refused(str(error)))


def forked(
    setting: str,
    connection: socket.socket,
    lifeline: socket.socket,
    log: Connection,
    environ: Mapping[str, str],
) -> None:
    """What :func:`main` does, in a process that was forked: with what it says going into a log."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    root = msgspec.json.decode(setting, type=Setting).root
    fork_server.enter(root, environ, (nothing, log.fileno(), log.fileno()))
    os.close(nothing)
    log.close()
    fork_server.name_process(CALLED)
    main(setting, str(connection.detach()), str(lifeline.detach()))


def main(setting: str, connection: str, lifeline: str) -> None:
    """Run cells for a worker until it has no more.

    Args:
        setting: a :class:`Setting` as JSON.
        connection: number of the socket of units and what becomes of them.
        lifeline: of one that closes when the worker ends.
    """
    # Crashing is what the process is for: no core files.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # What to do at an interrupt from the keyboard is for the worker to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    silence_vendors()
    quiet_imports()
    with (
        socket.socket(fileno=int(lifeline)) as watched,
        socket.socket(fileno=int(connection)) as told,
        contextlib.suppress(ConnectionError),
    ):
        die_with_parent(watched)
        _serve(msgspec.json.decode(setting, type=Setting), told)


if __name__ == "__main__":
    main(*sys.argv[1:])
