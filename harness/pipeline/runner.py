"""Run one case through all stages on one target and record the result (:func:`run_cell`)."""

from __future__ import annotations

import time
from collections.abc import Sequence

from harness.errors import describe
from harness.model import registry
from harness.model.backend import Availability, Backend
from harness.model.case import Case
from harness.model.limitation import Limitation, apply_limitation, find_limitation
from harness.model.recipe import Recipe
from harness.pipeline.cell_options import CellOptions
from harness.pipeline.cell_run import CellEnding, CellRun
from harness.pipeline.speed.stack_chunks import run_in_one_stack_chunk
from harness.record.cell import Cell, Status
from harness.record.target import Target
from harness.vendors.versions import describe_missing_packages

_DEFAULTS = CellOptions()


@run_in_one_stack_chunk
def run_cell(
    case: Case,
    target: Target | str,
    *,
    seed: int = 0,
    limitations: Sequence[Limitation] = (),
    recipe: Recipe | None = None,
    backend: Backend | None = None,
    options: CellOptions = _DEFAULTS,
) -> Cell:
    """Run one case on one target.

    Errors of the case or the backend are not raised, exits and skips included: they become the
    cell's status, stage and error. Several threads may call this function. Their stages take turns
    (:mod:`harness.execution.process_lock`); only execution runs in parallel.

    Args:
        case: the case.
        target: the target, or its spelling.
        seed: run seed. It and the case's name determine weights and inputs.
        limitations: expected failures. The first one that matches this cell judges it.
        recipe: used instead of the target's recipe.
        backend: used instead of the target's backend.
        options: where the cell stops, what it saves, and what is called as it goes on.

    Raises:
        UnknownTarget: the backend or recipe does not exist.
        UsageError: a file in ``options.save`` or ``options.cell_folder`` cannot be written.
    """
    start = time.perf_counter()
    target = Target.parse(target) if isinstance(target, str) else target
    backend = backend or registry.backend(target.backend)
    limitation = find_limitation(limitations, case, target)
    run = CellRun(case, target, seed, options)
    state = _check_availability(backend)
    if not (state.available or state.can_lower):
        outcome = CellEnding(Status.UNAVAILABLE, error=state.reason)
    elif missing := describe_missing_packages(case.requires):
        outcome = CellEnding(Status.UNAVAILABLE, error=missing)
    else:
        recipe = recipe or registry.recipe(target, backend)
        only = "lowered only, as asked" if options.lower_only else state.reason
        outcome = run.run(backend, recipe, only, limitation)
    cell = run.record(outcome, time.perf_counter() - start)
    if outcome.excused and limitation is not None:
        cell.limitation = limitation.ref
    else:
        cell = apply_limitation(cell, limitation)
    if options.cell_folder is not None:
        options.cell_folder.remove_if_not_red(cell)
    return cell


def _check_availability(backend: Backend) -> Availability:
    try:
        return backend.availability()
    except Exception as error:
        return Availability(False, f"availability() of {backend.name} raised {describe(error)}")
