"""The process of a slot, which runs cells of this checkout (:mod:`harness.workers.served`).

A cell that crashes or exceeds its time or memory limit ends the process; the worker starts another
one.
"""

from __future__ import annotations

import faulthandler
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import msgspec

from harness.cluster.messages import WorkerInfo, WorkUnit
from harness.errors import UsageError
from harness.record.host import read_environment
from harness.record.target import cell_id
from harness.session import run_one
from harness.session.discovery import Suite, is_suite, load_suite
from harness.vendors.quiet import quiet_imports, silence_vendors
from harness.workers import fork_server
from harness.workers.crash_record import stack_file
from harness.workers.memory import GIB
from harness.workers.protocol import CellEnded, CellStarted, Finished
from harness.workers.served import Send, Serve
from harness.workers.worker_status import StatusFile, WorkerStatus

if TYPE_CHECKING:
    from harness.pipeline.shared_case_work import SharedCaseWork

PROCESS_NAME = "conform-cells"
"""Name of the process in ``ps`` and ``top``."""


class SlotConfig(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Settings that a worker passes to its process.

    Attributes:
        root: root of the checkout.
        logs: folder of status and stack files, shared by all processes of the worker.
        name: name of the process in that folder.
        memory: memory limit in bytes for the cells of all processes of the worker together.
        speed: whether to install the speed parts.
    """

    root: str
    logs: str
    name: str
    memory: int = 0
    speed: bool = True


class _CellRunner:
    """Runs units of work in this process."""

    def __init__(self, config: SlotConfig, stack: TextIO, shared_work: SharedCaseWork) -> None:
        self.config = config
        self.stack = stack
        self.shared_work = shared_work
        self.board = StatusFile(Path(config.logs), config.name)

    def run(self, unit: WorkUnit, send: Send) -> None:
        """Run the cells of a unit, and send their events.

        Raises:
            ConformError: the suite is missing or differs in this checkout, or has no such case.
        """
        from harness.model import registry

        suite = self._load_suite(unit)
        case = next((each for each in suite.cases if each.name == unit.case), None)
        if case is None:
            raise UsageError(f"{unit.file} has no case {unit.case} here")
        targets = {cell_id(case.name, target): target
              for target in registry.select_targets(case, unit.asked.targets)}  # fmt: skip
        for name in unit.cells:
            if name not in targets:
                raise UsageError(f"{unit.case} does not run on the target of {name} here")
            budget = round(GIB * max(unit.cell_memory, case.memory))
            doing = WorkerStatus(
                pid=os.getpid(),
                cell=name,
                budget=min(budget, self.config.memory),
                asked=budget,
            )
            meter = self.board.make_meter(doing)
            with (
                self.board.wait_for_memory(
                    msgspec.structs.replace(doing, base=meter.base), self.config.memory
                ),
                self._limit_time(unit.asked.cell_timeout),
            ):
                send(CellStarted(name))
                cell, claim = run_one.run_suite_cell(
                    case,
                    targets[name],
                    suite,
                    unit.asked,
                    shared_work=self.shared_work,
                    worker=self.config.name,
                    meter=meter,
                    board=self.board,
                )
            send(CellEnded(name, cell.to_json(), None if claim is None else claim.to_json()))

    def _load_suite(self, unit: WorkUnit) -> Suite:
        """Load the suite of a unit from this checkout, and check that it is the same file."""
        root = Path(self.config.root)
        path = (root / unit.file).resolve()
        if not path.is_relative_to(root) or not path.is_file() or not is_suite(path):
            raise UsageError(f"{unit.file} is not a suite of this checkout")
        if hashlib.sha256(path.read_bytes()).hexdigest() != unit.digest:
            raise UsageError(f"{unit.file} differs from the file where the run was started")
        return load_suite(path)

    @contextmanager
    def _limit_time(self, seconds: float) -> Iterator[None]:
        """End the process if a cell takes too long, even inside native code."""
        self.stack.seek(0)
        self.stack.truncate()
        faulthandler.dump_traceback_later(seconds, exit=True, file=self.stack)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


def describe_worker(root: Path) -> WorkerInfo:
    """Load all backends and describe this worker."""
    from harness import vendors
    from harness.model import registry
    from harness.model.backend import LoadsDelegates
    from harness.pipeline import speed

    with run_one.ignore_vendor_warnings():
        backends = {name: registry.backend(name) for name in registry.names()}
        return WorkerInfo(
            environment=read_environment(root),
            backends=registry.find_backend_states(backends, None),
            delegates={name: one.delegate for name, one in backends.items()
                       if isinstance(one, LoadsDelegates)},
            slow=dict(speed.find_disabled_parts()),
            gone=dict(vendors.find_missing_names()),
        )  # fmt: skip


class _SlotService:
    """Serves the requests of a slot: first its settings, then units of work."""

    _runner: _CellRunner

    def __call__(self, request: bytes, send: Send) -> None:
        """Do a request.

        Raises:
            UsageError: this worker cannot run a unit; another one may.
        """
        match _decoder.decode(request):
            case SlotConfig() as config:
                self._start(config, send)
            case unit:
                try:
                    self._runner.run(unit, send)
                except OSError as error:
                    raise UsageError(str(error)) from error
        send(Finished())

    def _start(self, config: SlotConfig, send: Send) -> None:
        """Load the backends, and send a description of this worker."""
        fork_server.name_process(PROCESS_NAME)
        silence_vendors()
        quiet_imports()
        stack = stack_file(Path(config.logs), config.name).open("w+", encoding="utf-8")
        faulthandler.enable(file=stack)
        import torch

        from harness.pipeline import speed
        from harness.pipeline.shared_case_work import SharedCaseWork

        # As in a local run with one worker per core: results of sums depend on the threads.
        torch.set_num_threads(1)
        info = describe_worker(Path(config.root))
        if config.speed:
            speed.install()
            speed.tune_garbage_collector()
        self._runner = _CellRunner(config, stack, SharedCaseWork())
        send(info)


_decoder: msgspec.msgpack.Decoder[SlotConfig | WorkUnit] = msgspec.msgpack.Decoder(
    SlotConfig | WorkUnit
)

serve: Serve = _SlotService()
"""Serves requests in the process of a slot (:mod:`harness.workers.served`)."""
