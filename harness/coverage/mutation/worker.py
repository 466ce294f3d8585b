"""The worker process of a campaign: forks a process for each request, which runs the cells.

This process executes no program, so that it has one thread and can be forked.
"""

from __future__ import annotations

import functools
import hashlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import msgspec
import torch

from harness.coverage.mutation.install import FunctionIndex
from harness.coverage.mutation.messages import (
    CellJob,
    CellObserved,
    InvalidMutant,
    MutationRequest,
)
from harness.coverage.vendor_code import list_vendor_files
from harness.errors import ConformError, describe
from harness.execution.execute import list_native_backends
from harness.model import registry
from harness.model.case import Case
from harness.pipeline import speed
from harness.pipeline.cell_options import CellOptions
from harness.pipeline.runner import run_cell
from harness.record.cell import Cell, Status
from harness.record.target import Target
from harness.session.discovery import Suite, load_suite
from harness.vendors.quiet import silence_vendors
from harness.workers.fork_server import end_with_parent
from harness.workers.process import describe_exit
from harness.workers.protocol import Finished
from harness.workers.served import Send

_FoundCase: TypeAlias = tuple[Case, Suite]
_WARM_UP = Case("warm_up", lambda: (torch.nn.Linear(4, 4).eval(), (torch.randn(2, 4),)))


def serve(request: bytes, send: Send) -> None:
    """Run the cells of a :class:`MutationRequest` in a forked process."""
    _prepare().run(msgspec.msgpack.decode(request, type=MutationRequest), send)


@functools.cache
def _prepare() -> _Forks:
    silence_vendors()
    torch.set_num_threads(1)
    # Parts that skip vendors' code would hide what it does.
    speed.install(complete=True)
    list_native_backends()  # loads the runtime, 0.7 s
    return _Forks()


class _Forks:
    """Forks the processes that run cells."""

    def __init__(self) -> None:
        self._index = FunctionIndex({file.name: file for file in list_vendor_files()})
        self._load_suite = functools.cache(lambda path: load_suite(Path(path)))
        self._targets: set[str] = set()

    def run(self, request: MutationRequest, send: Send) -> None:
        """Run the cells of a request, and send how the process ended."""
        found = [self._find_case(job) for job in request.cells]
        self._warm_up(job.target for job in request.cells)
        self._index.update(request.mutant)
        parent = os.getpid()
        if (pid := os.fork()) == 0:
            code = 1
            try:
                end_with_parent(parent)  # a stopped campaign ends its workers
                self._run_cells(request, found, send)
                code = 0
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        end = "" if code == 0 else describe_exit(code)
        if code == -signal.SIGALRM:
            end = f"did not end in {request.cell_timeout:g} s"
        send(Finished(end.encode()))

    def _find_case(self, job: CellJob) -> _FoundCase | None:
        """Find the case of a cell; None if its suite does not load, or no longer has it."""
        try:
            suite = self._load_suite(job.suite)
        except (ConformError, OSError):
            return None
        return next(((case, suite) for case in suite.cases if case.name == job.case), None)

    def _run_cells(
        self, request: MutationRequest, found: Iterable[_FoundCase | None], send: Send
    ) -> None:
        if request.mutant is not None:
            try:
                self._index.install(request.mutant)
            except Exception as error:  # such as a file that is another one now
                send(InvalidMutant(describe(error)))
                return
        program = Path(request.folder) / "program.pte"
        for job, each in zip(request.cells, found, strict=True):
            # Its default action ends the process, also in native code.
            signal.setitimer(signal.ITIMER_REAL, request.cell_timeout)
            event, is_red = _run_cell(job, each, request.seed, program)
            signal.setitimer(signal.ITIMER_REAL, 0)
            send(event)
            if is_red and request.mutant is not None:
                return

    def _warm_up(self, targets: Iterable[str]) -> None:
        """Lower a small program for each target, so that forked processes find imports and torch's
        tables done, 0.8 s a process. It is not executed: a runtime would start threads."""
        for target in sorted(set(targets) - self._targets):
            self._targets.add(target)
            run_cell(_WARM_UP, target, options=CellOptions(lower_only=True))
            registry.backend(Target.parse(target).backend).availability()


def _run_cell(
    job: CellJob, found: _FoundCase | None, seed: int, program: Path
) -> tuple[CellObserved, bool]:
    """Run a cell; return the event to send, and whether the cell is red.

    Args:
        job: the cell.
        found: its case and suite; None if there is no such case.
        seed: run seed.
        program: a file for its program, which is removed again.
    """
    if found is None:
        error = f"{job.suite} does not load, or has no such case"
        lost = Cell(case=job.case, target=job.target, status=Status.FAILED, error=error)
        return CellObserved(lost.to_json(), ""), True
    case, suite = found
    cell = run_cell(
        case,
        Target.parse(job.target),
        seed=seed,
        limitations=suite.limitations,
        options=CellOptions(save=program),
    )
    cell.suite = suite.name
    digest = ""
    if program.exists():
        digest = hashlib.blake2b(program.read_bytes(), digest_size=16).hexdigest()
        program.unlink()
    return CellObserved(cell.to_json(), digest), cell.status.is_red
