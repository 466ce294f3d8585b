"""Judge mutants: run the cells that execute each, and compare them with the installed code.

Does not import torch.
"""

from __future__ import annotations

import itertools
import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from harness.coverage.mutation.choose import CellChooser
from harness.coverage.mutation.messages import (
    CellJob,
    CellObserved,
    InvalidMutant,
    MutationEvent,
    MutationRequest,
)
from harness.coverage.mutation.mutant import Mutant, MutantOutcome, MutantResult
from harness.errors import ConformError, WorkerEnded
from harness.record.cell import Cell
from harness.record.target import suite_file
from harness.workers.fork_server import python_command
from harness.workers.process import WorkerProcess
from harness.workers.protocol import Finished, Refused

CompareCells = Callable[[Cell, Cell], str]
"""Describes why the gate refuses the second record of a cell after the first; empty if it does
not."""

_MODULE = "harness.coverage.mutation.worker"
_TIMEOUT_FACTOR, _LEAST_TIMEOUT = 20.0, 60.0


@dataclass(frozen=True)
class _Observation:
    """A cell that ran: its record, and a digest of its program."""

    cell: Cell
    digest: str


@dataclass(frozen=True)
class _Ended:
    """Cells that ran in one process, in order.

    Attributes:
        observed: the cells that ended.
        end: how the process ended in the next cell; empty if it ended by itself.
        invalid: why the mutant is invalid.
    """

    observed: list[_Observation]
    end: str = ""
    invalid: str = ""


def judge_mutants(
    mutants: Sequence[Mutant],
    chooser: CellChooser,
    compare: CompareCells,
    *,
    suites: Path,
    cells: int,
    sampled: bool,
    workers: int,
    deadline: float | None = None,
) -> Iterator[MutantResult]:
    """Judge mutants; yield each result as it is known.

    Args:
        mutants: the mutants.
        chooser: chooses their cells.
        compare: the gate.
        suites: the folder of the suites that have the cells.
        cells: the most cells for one mutant; 0 for all.
        sampled: whether the mutants are drawn at random from all files.
        workers: number of processes.
        deadline: of ``time.monotonic()``, after which no mutant is begun.

    Raises:
        ConformError: a worker process does not start.
    """
    baseline, stopped = _Baseline(), threading.Event()
    folder = tempfile.TemporaryDirectory(prefix="conform-")
    folders = [Path(tempfile.mkdtemp(dir=folder.name)) for _ in range(workers)]
    judges = [_Judge(baseline, stopped, compare, suites, each) for each in folders]
    idle: queue.SimpleQueue[_Judge] = queue.SimpleQueue()
    for each in judges:
        idle.put(each)

    def judge(mutant: Mutant, chosen: list[Cell], executing: int) -> MutantResult:
        one = idle.get()
        try:
            return structs.replace(one.judge(mutant, chosen, executing), sampled=sampled)
        finally:
            idle.put(one)

    left, running = iter(mutants), set[Future[MutantResult]]()
    pool = ThreadPoolExecutor(workers)
    try:
        while True:
            is_late = deadline is not None and time.monotonic() > deadline
            for mutant in () if is_late else itertools.islice(left, workers - len(running)):
                running.add(pool.submit(judge, mutant, *chooser.choose(mutant, cells)))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            # Results first: an error ends the campaign.
            for future in sorted(done, key=lambda future: future.exception() is not None):
                yield future.result()
    finally:
        stopped.set()
        for one in judges:
            one.close()
        pool.shutdown(cancel_futures=True)
        folder.cleanup()


class _Baseline:
    """The results of cells with the installed code; shared by all workers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._observed: dict[str, _Observation | None] = {}

    def run_missing(self, cells: Sequence[Cell], run: Callable[[Sequence[Cell]], _Ended]) -> None:
        """Run the cells that did not run yet."""
        missing = [cell for cell in cells if cell.id not in self._observed]
        while missing:
            ended = run(missing)
            with self._lock:
                for each in ended.observed:
                    red = each.cell.status.is_red
                    self._observed[each.cell.id] = None if red else each
                missing = missing[len(ended.observed) :]
                if ended.end and missing:
                    self._observed[missing.pop(0).id] = None

    def find(self, cell: str) -> _Observation | None:
        """Return a cell that ran; None if it is red or ends its process."""
        return self._observed[cell]


class _Judge:
    """Judges mutants in a worker process of its own.

    Args:
        baseline: results with the installed code.
        stopped: set when the campaign ends.
        compare: the gate.
        suites: the folder of the suites.
        folder: an empty folder of its own.
    """

    def __init__(
        self,
        baseline: _Baseline,
        stopped: threading.Event,
        compare: CompareCells,
        suites: Path,
        folder: Path,
    ) -> None:
        self._baseline, self._stopped, self._compare = baseline, stopped, compare
        self._root, self._folder = suites.resolve().parent, folder
        self._process: WorkerProcess[MutationEvent] | None = None

    def judge(self, mutant: Mutant, cells: Sequence[Cell], executing: int) -> MutantResult:
        """Run the cells of a mutant until one is red, and classify the mutant."""
        began = time.monotonic()
        seen: list[_Observation] = []

        def make_result(outcome: MutantOutcome, cell: str = "", detail: str = "") -> MutantResult:
            return MutantResult(
                mutant=mutant,
                outcome=outcome,
                tried=len(seen),
                executing=executing,
                cell=cell,
                detail=detail,
                seconds=time.monotonic() - began,
            )

        left = list(cells)
        while left:
            ended = self._run(mutant, left)
            if ended.invalid:
                return make_result(MutantOutcome.INVALID, detail=ended.invalid)
            ran, left = left[: len(ended.observed)], left[len(ended.observed) :]
            died = [left.pop(0)] if ended.end and left else []
            self._baseline.run_missing([*ran, *died], lambda missing: self._run(None, missing))
            seen += [each for each in ended.observed if self._baseline.find(each.cell.id)]
            for cell in died:
                if self._baseline.find(cell.id):
                    return make_result(MutantOutcome.RED, cell.id, f"the process {ended.end}")
            if seen and (last := seen[-1].cell).status.is_red:
                return make_result(MutantOutcome.RED, last.id, _describe(last))
            if not ended.end and not (ended.observed and ended.observed[-1].cell.status.is_red):
                break
        if not seen:
            return make_result(MutantOutcome.INVALID, detail="no cell passes without the mutant")
        return make_result(*self._compare_with_baseline(mutant, seen, cells))

    def _compare_with_baseline(
        self, mutant: Mutant, seen: Sequence[_Observation], cells: Sequence[Cell]
    ) -> tuple[MutantOutcome, str, str]:
        """Return the outcome of a mutant without a red cell, its cell, and details."""
        pairs = [(self._baseline.find(each.cell.id), each) for each in seen]
        for before, after in pairs:
            if before and (reason := self._compare(before.cell, after.cell)):
                return MutantOutcome.GATE, after.cell.id, reason
        by_id = {cell.id: cell for cell in cells}
        for before, after in pairs:
            name = after.cell.id
            if before and before.digest != after.digest and self._differs(mutant, by_id[name]):
                return MutantOutcome.CHANGED, name, ""
        return MutantOutcome.UNCHANGED, "", ""

    def _differs(self, mutant: Mutant, cell: Cell) -> bool:
        """Whether a cell alone in a process has another program with the mutant.

        Names in the programs of a few models depend on the cells before them.
        """
        alone = [self._run(each, [cell]).observed for each in (mutant, None)]
        digests = {each.digest for observed in alone for each in observed}
        return len(digests) > 1

    def close(self) -> None:
        """End the worker process."""
        if self._process is not None:
            self._process.close()

    def _run(self, mutant: Mutant | None, cells: Sequence[Cell]) -> _Ended:
        """Run cells in a forked process. A worker that died is started again, once.

        Raises:
            ConformError: the worker process ended twice, or the campaign was stopped.
        """
        slowest = max(cell.seconds for cell in cells)
        request = MutationRequest(
            mutant=mutant,
            cells=[
                CellJob(str(self._root / suite_file(cell.suite)), cell.case, cell.target)
                for cell in cells
            ],
            folder=str(self._folder),
            cell_timeout=max(_LEAST_TIMEOUT, _TIMEOUT_FACTOR * slowest),
        )
        for _ in range(2):
            process = self._open_worker()
            ended = self._send(process, request)
            if ended is not None:
                return ended
            self._process = None
        output = (self._folder / "output").read_text(errors="replace")
        printed = " ".join(output.strip().splitlines()[-1:])
        raise ConformError(f"the process that forks {process.end}: {printed}")

    def _open_worker(self) -> WorkerProcess[MutationEvent]:
        if self._process is None and not self._stopped.is_set():
            self._process = _start_worker(self._folder / "output")
        if self._process is None or self._stopped.is_set():
            self.close()  # of a worker that started meanwhile
            raise ConformError("the campaign was stopped")
        return self._process

    def _send(
        self, process: WorkerProcess[MutationEvent], request: MutationRequest
    ) -> _Ended | None:
        """Send a request, and collect its events; None if the worker process ended."""
        observed, invalid = [], ""
        try:
            process.send(request)
        except OSError:
            process.wait_for_end()
            return None
        for event in process.events():
            match event:
                case CellObserved():
                    observed.append(_Observation(Cell.from_json(event.record), event.digest))
                case InvalidMutant():
                    invalid = event.message
                case Refused():
                    raise ConformError(event.message)
                case Finished():
                    return _Ended(observed, event.answer.decode(), invalid)
        return None


def _start_worker(output: Path) -> WorkerProcess[MutationEvent]:
    process: WorkerProcess[MutationEvent] = WorkerProcess(
        _MODULE,
        MutationEvent,
        environment={"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        output=output,
        python=python_command(),
    )
    try:
        process.start()
    except (WorkerEnded, OSError) as error:
        raise ConformError(f"the process that forks {error}") from error
    return process


def _describe(cell: Cell) -> str:
    """Describe why a cell is red, in one line."""
    stage = f"{cell.stage}: " if cell.stage else ""
    return f"{cell.status.value}: {stage}{(cell.error or '').splitlines()[0] if cell.error else ''}"
