"""The worker process of a campaign: forks a process for each request, which runs the cells.

This process executes no program, so that it has one thread and can be forked.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path

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
from harness.workers.process import describe_exit
from harness.workers.protocol import Finished
from harness.workers.served import Send

_PR_SET_PDEATHSIG = 1  # of Linux's prctl
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
        suites = [self._load(job) for job in request.cells]
        self._warm_up(job.target for job in request.cells)
        self._index.update(request.mutant)
        parent = os.getpid()
        if (pid := os.fork()) == 0:
            code = 1
            try:
                # A stopped campaign ends its workers, whose own end must end this process.
                ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                if os.getppid() != parent:
                    os._exit(code)
                self._run_cells(request, suites, send)
                code = 0
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        end = "" if code == 0 else describe_exit(code)
        if code == -signal.SIGALRM:
            end = f"did not end in {request.cell_timeout:g} s"
        send(Finished(end.encode()))

    def _load(self, job: CellJob) -> Suite | None:
        """Load the suite of a cell; None if it does not load, or no longer has the case."""
        try:
            suite = self._load_suite(job.suite)
        except (ConformError, OSError):
            return None
        return suite if any(case.name == job.case for case in suite.cases) else None

    def _run_cells(
        self, request: MutationRequest, suites: Iterable[Suite | None], send: Send
    ) -> None:
        if request.mutant is not None:
            try:
                self._index.install(request.mutant)
            except Exception as error:  # such as a file that is another one now
                send(InvalidMutant(describe(error)))
                return
        for job, suite in zip(request.cells, suites, strict=True):
            # Its default action ends the process, also in native code.
            signal.setitimer(signal.ITIMER_REAL, request.cell_timeout)
            observed = _run_cell(job, suite, request.seed, Path(request.folder) / "program.pte")
            signal.setitimer(signal.ITIMER_REAL, 0)
            send(observed[0])
            if observed[1] and request.mutant is not None:
                return

    def _warm_up(self, targets: Iterable[str]) -> None:
        """Lower a small program for each target, so that forked processes find imports and torch's
        tables done, 0.8 s a process. It is not executed: a runtime would start threads."""
        for target in sorted(set(targets) - self._targets):
            self._targets.add(target)
            run_cell(_WARM_UP, target, options=CellOptions(lower_only=True))
            registry.backend(Target.parse(target).backend).availability()


def _run_cell(
    job: CellJob, suite: Suite | None, seed: int, program: Path
) -> tuple[CellObserved, bool]:
    """Run a cell; return the event to send, and whether the cell is red.

    Args:
        job: the cell.
        suite: its suite; None if it has none.
        seed: run seed.
        program: a file for its program, which is removed again.
    """
    if suite is None:
        error = f"{job.suite} does not load, or has no such case"
        lost = Cell(case=job.case, target=job.target, status=Status.FAILED, error=error)
        return CellObserved(lost.to_json(), ""), True
    case = next(case for case in suite.cases if case.name == job.case)
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
