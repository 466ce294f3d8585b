"""The worker process of a check; :mod:`harness.workers.served` imports it there."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import msgspec

from harness.checking.messages import (
    LOG,
    WORKER,
    CellsPlanned,
    CellTraced,
    CheckEvent,
    CheckRequest,
    NodeSearchStarted,
)
from harness.errors import UsageError
from harness.record.target import cell_id
from harness.tracing import AUTOMATIC_TRACE_SECONDS
from harness.vendors.quiet import silence_vendors
from harness.workers.protocol import (
    CellEnded,
    CellStarted,
    Finished,
    ProgramLowered,
    StageStarted,
)
from harness.workers.served import Send
from harness.workers.worker_status import StatusFile, WorkerStatus

if TYPE_CHECKING:
    from harness.checking.custom_recipe import RecipeChanges
    from harness.model.case import Case
    from harness.model.recipe import Recipe
    from harness.pipeline.tester import Tester
    from harness.record.cell import Cell
    from harness.record.target import Target


def run_check(request: CheckRequest, send: Callable[[CheckEvent], None], log: TextIO) -> None:
    """Load the model, plan its cells and run the cells that are not done.

    Args:
        request: the check.
        send: sends an event.
        log: gets the output that is printed while cells run. A model that prints has printed in
            its eager run already, and would print many times for each target.

    Raises:
        ConformError: the check cannot run.
    """
    silence_vendors()
    from harness.checking import (
        cases,
        check,
        custom_recipe,
        dynamic_dimensions,
        metric_specs,
        model_sources,
    )
    from harness.model import registry
    from harness.pipeline import speed
    from harness.pipeline.cell_options import CellOptions
    from harness.pipeline.quantization.quality import QualityOptions
    from harness.pipeline.shared_case_work import SharedCaseWork

    if request.speed:
        speed.install()
    targets = check.resolve_targets(request.targets, request.vary)
    asked = dynamic_dimensions.parse_dynamic(request.dynamic)
    changes = custom_recipe.RecipeChanges(
        [custom_recipe.load_pass(spec) for spec in request.passes], request.keep_float
    )
    subject = model_sources.load_model(
        request.source,
        [Path(file) for file in request.inputs],
        [Path(file) for file in request.calibrate],
        seed=request.seed,
    )
    custom_recipe.check_module_names(subject.module, request.keep_float)
    metrics = [metric_specs.parse_metric(spec) for spec in request.metrics]
    plan = cases.plan_cases(subject, asked, seed=request.seed, metrics=metrics)
    pairs = {cell_id(case.name, target): (case, target)
             for case, target in check.pair_cases_and_targets(plan.cases, targets)}  # fmt: skip
    states = registry.find_backend_states((target.backend for target in targets), targets)
    send(CellsPlanned(list(pairs), plan.notes, states))
    _trace_crashed_cells(request, pairs, changes, send, log)
    folder = None if request.programs is None else Path(request.programs)
    board, shared_work = StatusFile(Path(request.folder), WORKER), SharedCaseWork()
    with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        for name, (case, target) in pairs.items():
            if name in request.done:
                continue
            log.flush()
            send(CellStarted(name, printed=os.fstat(log.fileno()).st_size))
            doing = WorkerStatus(
                pid=os.getpid(), cell=name, budget=request.budget, asked=request.budget
            )
            meter = board.make_meter(doing, lambda stage: send(StageStarted(stage)))
            doing = msgspec.structs.replace(doing, base=meter.base)
            ran: list[Tester] = []
            failed: list[Tester] = []
            with board.wait_for_memory(doing, request.budget):
                cell = check.check_cell(
                    case,
                    target,
                    seed=request.seed,
                    changes=changes,
                    options=CellOptions(
                        continue_past_defects=request.past_defects,
                        quality=QualityOptions(request.quality, request.reach_sqnr),
                        save=None if folder is None else _program_path(folder, name),
                        meter=meter,
                        shared_work=shared_work,
                        on_lowered=lambda so_far: send(ProgramLowered(so_far.to_json())),
                        on_compared=ran.append,
                        on_failure=failed.append,
                    ),
                )
            send(CellEnded(cell.id, cell.to_json()))
            recipe = changes.change(target)
            traced = _trace_cell(case, cell, request, recipe, send, ran, failed)
            if traced is not None:
                send(traced)


def _trace_crashed_cells(
    request: CheckRequest,
    pairs: Mapping[str, tuple[Case, Target]],
    changes: RecipeChanges,
    send: Callable[[CheckEvent], None],
    log: TextIO,
) -> None:
    """Find the failing nodes of cells that crashed an earlier process."""
    from harness.record.cell import Cell

    for record in request.crashed:
        cell = Cell.from_json(record)
        case, target = pairs[cell.id]
        # The record of a crash has no tags.
        cell.tags = sorted(case.tags)
        send(NodeSearchStarted(cell.id))
        with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
            traced = _trace_cell(case, cell, request, changes.change(target), send)
        if traced is not None:
            send(traced)


def _trace_cell(
    case: Case,
    cell: Cell,
    request: CheckRequest,
    recipe: Recipe | None,
    send: Callable[[CheckEvent], None],
    ran: Sequence[Tester] = (),
    failed: Sequence[Tester] = (),
) -> CellTraced | None:
    """Trace a red cell. Returns None if there is nothing to trace."""
    from harness.tracing.divergence import trace_cell

    def report_progress(line: str) -> None:
        send(StageStarted(f"tracing, {line}"))

    limit = None if request.trace else AUTOMATIC_TRACE_SECONDS
    found = trace_cell(
        cell,
        case,
        seconds=limit,
        recipe=recipe,
        on_progress=report_progress,
        finished_tester=ran[0] if ran else None,
        failed_tester=failed[0] if failed else None,
        search_failures=True,
    )
    if found is None:
        return None
    if isinstance(found, str):
        return CellTraced(cell.id, problem=found)
    return CellTraced(cell.id, msgspec.msgpack.encode(found))


def _program_path(folder: Path, cell: str) -> Path:
    """The file to write a cell's program to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the folder {folder}: {error.strerror}") from error
    return folder / f"{cell.replace('/', '_').replace(':', '_')}.pte"


def _redirect_output(log: int) -> None:
    """Send output of Python to standard error; native output and stacks of crashes to the log.

    Standard output is reserved for the table.
    """
    sys.stdout = sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    faulthandler.enable(file=log)


def serve(request: bytes, send: Send) -> None:
    """Run a check (:class:`CheckRequest`) and send its events (:data:`CheckEvent`)."""
    asked = msgspec.msgpack.decode(request, type=CheckRequest)
    log = Path(asked.folder, LOG)
    with log.open("w", buffering=1, errors="backslashreplace") as written:
        _redirect_output(written.fileno())
        run_check(asked, send, written)
        send(Finished())
