"""The first diverging node of a model that is wrong, for its record, without being asked."""

from __future__ import annotations

import shlex

from harness.errors import ConformError, describe
from harness.model.backend import Backend
from harness.model.case import Case
from harness.model.recipe import Recipe
from harness.pipeline.tester import Tester
from harness.record.cell import Cell, Status, is_model
from harness.tracing import LOCATED, UNASKED_SECONDS
from harness.tracing.first_failure import find_failing
from harness.tracing.trace import trace
from harness.tracing.trace_result import Found, recorded
from harness.tracing.trial import Say

_WRONG = (Status.MISMATCH, Status.XFAILED)
_FAILED = (Status.FAILED, Status.XFAILED, Status.CRASHED)


def diverges(cell: Cell) -> bool:
    """Whether a cell is a model whose outputs were compared and are wrong."""
    return is_model(cell.tags) and cell.status in _WRONG and cell.stage == "compare"


def lacks_node(cell: Cell) -> bool:
    """Whether a cell is a model that failed, or ended its process, in a stage whose failures have a
    node, and the node is not known, or no line of the model; a delegate of many nodes is none."""
    if not is_model(cell.tags) or cell.status not in _FAILED or cell.stage not in LOCATED:
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
    say: Say | None,
    failed: Tester | None,
) -> Found | str | None:
    """The node of a failure, or why it is not known; the arguments are those of :func:`look`."""
    try:
        found = find_failing(
            cell,
            case,
            seconds=seconds,
            recipe=recipe,
            backend=backend,
            say=say,
            failed=failed,
        )
    except ConformError as error:
        found = str(error)
    except Exception as error:
        found = f"looking for the node that fails failed: {describe(error)}"
    if isinstance(found, str):
        # The delegate is named at least.
        return found if cell.first_divergence is None else None
    return Found(cell.id, cell.seed, stage=cell.stage, problem=cell.error, failing=found)


def explained(
    cell: Cell,
    case: Case,
    *,
    seconds: float = UNASKED_SECONDS,
    ran: Tester | None = None,
) -> Cell:
    """The record of a cell with the first node at which it leaves the oracle, or with why that is
    not known; as it is where there is nothing to find. The verdict is the cell's own.

    Args:
        cell: a record.
        case: its case.
        seconds: what tracing may take.
        ran: the cell's tester, so that it is not run again.
    """
    found = look(cell, case, seconds=seconds, ran=ran)
    return cell if found is None else recorded(cell, found)


def look(
    cell: Cell,
    case: Case,
    *,
    seconds: float | None = UNASKED_SECONDS,
    recipe: Recipe | None = None,
    backend: Backend | None = None,
    say: Say | None = None,
    ran: Tester | None = None,
    failed: Tester | None = None,
    searches: bool = False,
) -> Found | str | None:
    """Trace a cell that has just been run, where that can tell something.

    Args:
        cell: its record.
        case: its case.
        seconds: what it may take; None for no limit.
        recipe: used instead of the one that the target names.
        backend: used instead of the one that the target names.
        say: hears what is being done.
        ran: the cell's tester, so that it is not run again.
        failed: the tester of a cell that failed, likewise.
        searches: look for the node of a failure that none is named of, which takes programs.

    Returns:
        What was found, or why nothing could be; None for a cell that is no model, that is not
        wrong, or of which all is known. Nothing is raised.
    """
    if cell.refused_call is not None:
        return None  # the sizes are named, and every smaller program has them
    if lacks_node(cell):
        if searches:
            return _search(cell, case, seconds, recipe, backend, say, failed)
        if cell.first_divergence is not None or cell.stage not in ("run", "quantize"):
            return None
        return (
            f"there are no values to compare; conform reduce {shlex.quote(cell.id)} --seed "
            f"{cell.seed} finds the smallest part that fails"
        )
    if not diverges(cell):
        return None
    if seconds is not None and cell.seconds > seconds:
        return (
            f"it takes {cell.seconds:.0f} s to run it once, and {seconds:.0f} s were left to trace "
            f"it; conform trace has no limit"
        )
    try:
        return trace(
            case,
            cell.target,
            seed=cell.seed,
            recipe=recipe,
            backend=backend,
            say=say,
            isolate=backend is None,
            seconds=seconds,
            ran=ran,
        )
    except ConformError as error:
        return str(error)
    except Exception as error:
        return f"tracing it failed: {describe(error)}"
