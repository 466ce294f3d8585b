"""One cell of a suite as a session asks for it: in pytest's own process, in a worker of xdist's, on
a cluster."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from harness.execution.memory import MemoryMeter
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
from harness.workers.worker_status import TRACE, StatusFile

if TYPE_CHECKING:
    from harness.pipeline.saving.cell_folder import CellFolder
    from harness.pipeline.shared_case_work import SharedCaseWork
    from harness.pipeline.tester import Tester

# A program that is being lowered is not interrupted: what is left over is for the last one.
_OF_WHAT_IS_LEFT = 0.7


class CellRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a session asks of each of its cells.

    Attributes:
        seed: run seed.
        selected: the targets asked for; None for those of a plain run.
        demanding: those on which something must be delegated.
        compare_runtimes: run natively and emulated where both are possible.
        lower_only: stop at the serialized program.
        keep: what is kept in the run folder: ``none``, ``red`` or ``all``.
        run_dir: the run folder.
        cell_timeout: seconds that a cell may take.
        trace_time: seconds that tracing a model whose outputs are wrong may take of them.
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
        """``selected``, read."""
        return None if self.selected is None else [Target.parse(each) for each in self.selected]


@contextmanager
def ignore_vendor_warnings() -> Iterator[None]:
    """Cells run vendors' code: what it warns of is theirs, and no verdict on a cell."""
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
    """Run a cell, and look for where it leaves the oracle in what is left of its time.

    Args:
        case: of the suite.
        target: where and how.
        suite: where the case is from.
        asked: by the session.
        shared_work: results that the cells of one case share in this process.
        worker: who runs it, for the record.
        meter: measures its memory.
        board: gets the record before it is traced, for whoever finds this process dead.

    Returns:
        Its record, and what it says of the limitation that speaks of it.
    """
    from harness.pipeline.runner import run_cell

    testers: list[Tester] = []
    keep = _keep(cell_id(case.name, target), asked)
    said = nullcontext() if board is None else capture_stderr(board.folder, board.worker)
    with ignore_vendor_warnings(), said:
        cell = run_cell(
            case,
            target,
            seed=asked.seed,
            limitations=suite.limitations,
            require_delegation=str(target) in asked.demanding,
            compare_runtimes=asked.compare_runtimes,
            lower_only=asked.lower_only,
            cell_folder=keep,
            meter=meter,
            on_compared=testers.append,
            on_lowered=None if board is None else board.store_lowered,
            shared_work=shared_work,
        )
    cell.suite, cell.worker = suite.name, worker
    if keep is not None and keep.folder.is_dir():
        cell.saved_to = saved_folder(cell.id)
    cell = _explained(cell, case, asked, testers, meter or MemoryMeter(), board)
    note_known_issues(cell)
    return cell, make_claim(cell, case, suite, asked.targets)


def judge_crashed_cell(cell: Cell, suite: Suite) -> None:
    """Complete and judge the record of a cell whose process died as that of any other.

    Args:
        cell: all that its process left.
        suite: where its case is from.
    """
    case = next(case for case in suite.cases if case.name == cell.case)
    cell.suite, cell.op, cell.tags = suite.name, case.op, sorted(case.tags)
    cell.source = case.source
    apply_limitation(cell, find_limitation(suite.limitations, case, Target.parse(cell.target)))


def _keep(cell: str, asked: CellRequest) -> CellFolder | None:
    """What of a cell is kept, and where."""
    from harness.pipeline.saving.cell_folder import CellFolder

    if asked.keep == "none":
        return None
    folder = Path(asked.run_dir) / saved_folder(cell)
    return CellFolder(folder, only_red=asked.keep == "red", for_run=True)


def _explained(
    cell: Cell,
    case: Case,
    asked: CellRequest,
    ran: list[Tester],
    meter: MemoryMeter,
    board: StatusFile | None,
) -> Cell:
    """The record with where it leaves the oracle.

    Should tracing end this process, the record is on the board.
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
    traced.memory.pop(TRACE, None)  # what the cell held is told by its own stages
    return traced
