"""The first diverging node of a model that is wrong, for its record, without being asked."""

from __future__ import annotations

from harness.backend import Backend
from harness.case import Case
from harness.errors import ConformError, describe
from harness.pipeline.tester import Tester
from harness.recipe import Recipe
from harness.record.cell import Cell, Status, is_model
from harness.tracing import UNASKED_SECONDS
from harness.tracing.found import Found, recorded
from harness.tracing.trace import trace
from harness.tracing.trial import Say

_WRONG = (Status.MISMATCH, Status.XFAILED)
_FAILED = (Status.FAILED, Status.XFAILED)


def diverges(cell: Cell) -> bool:
    """Whether a cell is a model whose outputs were compared and are wrong."""
    return is_model(cell.tags) and cell.status in _WRONG and cell.stage == "compare"


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

    Returns:
        What was found, or why nothing could be; None for a cell that is no model, that is not
        wrong, or whose program was not even made. Nothing is raised.
    """
    if cell.refused_call is not None:
        return None  # the sizes are named, and every smaller program has them
    if is_model(cell.tags) and cell.status in _FAILED and cell.stage == "run":
        if cell.first_divergence is not None:
            return None  # its instruction was named
        return "there are no values to compare; conform reduce finds the smallest part that fails"
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
