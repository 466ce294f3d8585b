"""Finds the first diverging or failing node of a red model automatically, for the cell's record."""

from __future__ import annotations

import shlex

from harness.errors import ConformError, describe
from harness.model.backend import Backend
from harness.model.case import Case
from harness.model.recipe import Recipe
from harness.pipeline.tester import Tester
from harness.record.cell import Cell, Status, is_model
from harness.tracing import AUTOMATIC_TRACE_SECONDS, LOCATABLE_STAGES
from harness.tracing.first_failure import find_failing_node
from harness.tracing.trace import trace
from harness.tracing.trace_result import Found, add_trace
from harness.tracing.trial import ProgressCallback

_WRONG = (Status.MISMATCH, Status.XFAILED)
_FAILED = (Status.FAILED, Status.XFAILED, Status.CRASHED)


def is_wrong_model(cell: Cell) -> bool:
    """Whether a cell is a model whose outputs were compared and are wrong."""
    return is_model(cell.tags) and cell.status in _WRONG and cell.stage == "compare"


def lacks_failing_node(cell: Cell) -> bool:
    """Whether a cell is a failed or crashed model whose failing node, or its source line, is
    unknown.

    Only for stages whose failures can be attributed to a node. A delegate of many nodes does not
    count as a node.
    """
    if not is_model(cell.tags) or cell.status not in _FAILED or cell.stage not in LOCATABLE_STAGES:
        return False
    if any(defect.node for defect in cell.defects) or (cell.error or "").startswith("memory: "):
        return False
    node = cell.first_divergence
    return node is None or not node.source or " nodes from " in node.op


def _search(
    cell: Cell,
    case: Case,
    seconds: float | None,
    recipe: Recipe | None,
    backend: Backend | None,
    on_progress: ProgressCallback | None,
    failed_tester: Tester | None,
) -> Found | str | None:
    """Find the failing node, or why it is unknown; takes the arguments of :func:`trace_cell`."""
    try:
        found = find_failing_node(
            cell,
            case,
            seconds=seconds,
            recipe=recipe,
            backend=backend,
            on_progress=on_progress,
            failed_tester=failed_tester,
        )
    except ConformError as error:
        found = str(error)
    except Exception as error:
        found = f"the search for the failing node failed: {describe(error)}"
    if isinstance(found, str):
        # The record already names at least the delegate.
        return found if cell.first_divergence is None else None
    return Found(cell.id, cell.seed, stage=cell.stage, problem=cell.error, failing_node=found)


def add_divergence(
    cell: Cell,
    case: Case,
    *,
    seconds: float = AUTOMATIC_TRACE_SECONDS,
    finished_tester: Tester | None = None,
) -> Cell:
    """Return the record of a cell with its first diverging node, or the reason why it is unknown.

    The record is unchanged where there is nothing to find. The verdict never changes.

    Args:
        cell: a record.
        case: its case.
        seconds: time limit for tracing.
        finished_tester: the cell's tester; it is reused instead of running the cell again.
    """
    found = trace_cell(cell, case, seconds=seconds, finished_tester=finished_tester)
    return cell if found is None else add_trace(cell, found)


def trace_cell(
    cell: Cell,
    case: Case,
    *,
    seconds: float | None = AUTOMATIC_TRACE_SECONDS,
    recipe: Recipe | None = None,
    backend: Backend | None = None,
    on_progress: ProgressCallback | None = None,
    finished_tester: Tester | None = None,
    failed_tester: Tester | None = None,
    search_failures: bool = False,
) -> Found | str | None:
    """Trace a cell that has just been run, if it is a red model.

    Args:
        cell: its record.
        case: its case.
        seconds: time limit; None for no limit.
        recipe: replaces the recipe that the target names.
        backend: replaces the backend that the target names.
        on_progress: called with a line of text for each step.
        finished_tester: the cell's tester; it is reused instead of running the cell again.
        failed_tester: the tester of a cell that failed, likewise.
        search_failures: search for the node of a failure that does not name one. This lowers and
            runs more programs.

    Returns:
        The result, or the reason why there is none; None for a cell that is not a model, is not
        wrong, or needs no search. Never raises.
    """
    if cell.refused_call is not None:
        return None  # the record names the sizes, and every smaller program has them
    if lacks_failing_node(cell):
        if search_failures:
            return _search(cell, case, seconds, recipe, backend, on_progress, failed_tester)
        if cell.first_divergence is not None or cell.stage not in ("run", "quantize"):
            return None
        return (
            f"there are no values to compare; conform reduce {shlex.quote(cell.id)} --seed "
            f"{cell.seed} finds the smallest part that fails"
        )
    if not is_wrong_model(cell):
        return None
    if seconds is not None and cell.seconds > seconds:
        return (
            f"it takes {cell.seconds:.0f} s to run the cell once, and {seconds:.0f} s were left to "
            f"trace it; conform trace has no time limit"
        )
    try:
        return trace(
            case,
            cell.target,
            seed=cell.seed,
            recipe=recipe,
            backend=backend,
            on_progress=on_progress,
            isolate=backend is None,
            seconds=seconds,
            finished_tester=finished_tester,
        )
    except ConformError as error:
        return str(error)
    except Exception as error:
        return f"tracing failed: {describe(error)}"
