"""Run one cell of a suite: in pytest's own process, in an xdist worker, or on a cluster."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from harness.model.case import Case
from harness.model.limitation import apply_limitation, find_limitation
from harness.model.registry import note_known_issues
from harness.record.cell import Cell
from harness.record.folder import saved_folder
from harness.record.target import Target, cell_id
from harness.session.discovery import Suite
from harness.session.stale_limitations import LimitationClaim, make_claim
from harness.tracing import AUTOMATIC_TRACE_SECONDS
from harness.workers.last_words import capture_stderr
from harness.workers.memory import MemoryMeter
from harness.workers.worker_status import TRACE, StatusFile

if TYPE_CHECKING:
    from harness.pipeline.saving.cell_folder import CellFolder
    from harness.pipeline.shared_case_work import SharedCaseWork
    from harness.pipeline.tester import Tester

# Share of the remaining time for tracing. Lowering is not interrupted, so the last program that
# tracing lowers may need the rest.
_OF_WHAT_IS_LEFT = 0.7


class CellRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a session that apply to each of its cells.

    Attributes:
        seed: run seed.
        selected: the selected targets; None for the targets of a plain run.
        demanding: the targets on which something must be delegated.
        compare_runtimes: run natively and emulated where both are possible.
        lower_only: stop after serialization.
        keep: cells whose files are saved in the run folder: ``none``, ``red`` or ``all``.
        run_dir: the run folder.
        cell_timeout: seconds that a cell may take.
        trace_time: the part of these seconds for tracing a model whose outputs are wrong.
    """

    seed: int = 0
    selected: list[str] | None = None
    demanding: list[str] = []
    compare_runtimes: bool = False
    lower_only: bool = False
    keep: str = "none"
    run_dir: str = ""
    cell_timeout: float = 300.0
    trace_time: float = AUTOMATIC_TRACE_SECONDS

    @property
    def targets(self) -> list[Target] | None:
        """``selected``, parsed."""
        return None if self.selected is None else [Target.parse(each) for each in self.selected]


@contextmanager
def ignore_vendor_warnings() -> Iterator[None]:
    """Ignore the warnings of vendors' code in this block; they do not affect a cell's verdict."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def run_suite_cell(
    case: Case,
    target: Target,
    suite: Suite,
    asked: CellRequest,
    *,
    shared_work: SharedCaseWork,
    worker: str | None = None,
    meter: MemoryMeter | None = None,
    board: StatusFile | None = None,
) -> tuple[Cell, LimitationClaim | None]:
    """Run a cell; if its outputs are wrong, trace it in the remaining time.

    Args:
        case: a case of the suite.
        target: its target.
        suite: the suite of the case.
        asked: the session's options.
        shared_work: results that the cells of one case share in this process.
        worker: name of the worker, for the record.
        meter: measures the cell's memory.
        board: the worker's status file, which gets the record before tracing, so that the record
            survives the death of this process.

    Returns:
        Its record, and its claim about the limitation that applies to it.
    """
    from harness.pipeline.cell_options import CellOptions
    from harness.pipeline.runner import run_cell

    testers: list[Tester] = []
    keep = _choose_cell_folder(cell_id(case.name, target), asked)
    said = nullcontext() if board is None else capture_stderr(board.folder, board.worker)
    with ignore_vendor_warnings(), said:
        options = CellOptions(
            require_delegation=str(target) in asked.demanding,
            compare_runtimes=asked.compare_runtimes,
            lower_only=asked.lower_only,
            cell_folder=keep,
            meter=meter,
            shared_work=shared_work,
            on_lowered=None if board is None else board.store_lowered,
            on_compared=testers.append,
        )
        cell = run_cell(
            case, target, seed=asked.seed, limitations=suite.limitations, options=options
        )
    cell.suite, cell.worker = suite.name, worker
    if keep is not None and keep.folder.is_dir():
        cell.saved_to = saved_folder(cell.id)
    cell = _add_trace(cell, case, asked, testers, meter or MemoryMeter(), board)
    note_known_issues(cell)
    return cell, make_claim(cell, case, suite, asked.targets)


def judge_crashed_cell(cell: Cell, suite: Suite) -> None:
    """Complete the record of a cell whose process died, and apply its limitation.

    Args:
        cell: the record that the process left.
        suite: the suite of its case.
    """
    case = next(case for case in suite.cases if case.name == cell.case)
    cell.suite, cell.op, cell.tags = suite.name, case.op, sorted(case.tags)
    cell.source = case.source
    apply_limitation(cell, find_limitation(suite.limitations, case, Target.parse(cell.target)))


def _choose_cell_folder(cell: str, asked: CellRequest) -> CellFolder | None:
    """Return the folder that a cell's files are saved in; None if nothing is saved."""
    from harness.pipeline.saving.cell_folder import CellFolder

    if asked.keep == "none":
        return None
    folder = Path(asked.run_dir) / saved_folder(cell)
    return CellFolder(folder, only_red=asked.keep == "red", for_run=True)


def _add_trace(
    cell: Cell,
    case: Case,
    asked: CellRequest,
    ran: list[Tester],
    meter: MemoryMeter,
    board: StatusFile | None,
) -> Cell:
    """Return the record with the result of tracing.

    The record is stored first, in case tracing ends this process.
    """
    from harness.tracing.divergence import add_divergence, is_wrong_model

    left = _OF_WHAT_IS_LEFT * (asked.cell_timeout - cell.seconds)
    seconds = min(asked.trace_time, left)
    if seconds <= 0:
        return cell
    if not is_wrong_model(cell):
        return add_divergence(cell, case, seconds=seconds)
    if board is not None:
        board.store_record(cell.to_json())
    with ignore_vendor_warnings(), meter.stage(TRACE):
        traced = add_divergence(cell, case, seconds=seconds, finished_tester=ran[0])
    traced.memory.pop(TRACE, None)  # the cell's own stages have its memory
    return traced
