"""run_cell: take a case through all stages on a target and record what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.errors import (
    describe,
)
from harness.execution.memory import Meter
from harness.model import registry
from harness.model.backend import Availability, Backend
from harness.model.case import Case
from harness.model.limitation import Limitation, find, judge
from harness.model.recipe import Recipe
from harness.pipeline.cell_run import CellRun, Ending
from harness.pipeline.saving.cell_folder import Keep
from harness.pipeline.siblings import Siblings
from harness.pipeline.speed.stack_chunks import run_in_one_stack_chunk
from harness.pipeline.tester import Tester
from harness.record.cell import (
    PUBLISHED,
    Cell,
    Status,
)
from harness.record.target import Target


@run_in_one_stack_chunk
def run_cell(
    case: Case,
    target: Target | str,
    *,
    seed: int = 0,
    limitations: Sequence[Limitation] = (),
    recipe: Recipe | None = None,
    backend: Backend | None = None,
    require_delegation: bool = False,
    compare_runtimes: bool = False,
    lower_only: bool = False,
    save: Path | None = None,
    keep: Keep | None = None,
    suite: str = "",
    worker: str | None = None,
    meter: Meter | None = None,
    judged: Callable[[Tester], None] | None = None,
    failed: Callable[[Tester], None] | None = None,
    lowered: Callable[[Cell], None] | None = None,
    siblings: Siblings | None = None,
    go_past: bool = True,
) -> Cell:
    """Run one case on one target.

    Never raises for what the case or the backend does, exits and skips included: that becomes the
    cell's status, stage and error. Threads may call it; all but execution takes turns
    (:mod:`harness.execution.process_lock`).

    Args:
        case: what is tested.
        target: where and how.
        seed: run seed; with the case's name it fixes weights and inputs.
        limitations: known gaps; the first that speaks of this cell judges it.
        recipe: used instead of the one that the target names.
        backend: used instead of the one that the target names.
        require_delegation: fail when nothing was delegated, whatever the recipe says.
        compare_runtimes: where the cell runs natively and the backend has an emulation too, run
            both; they must come to the same verdict.
        lower_only: stop at the serialized program; what comes so far ends as ``lowered``.
        save: file that gets the serialized program, when it comes that far.
        keep: folder that gets the program, inputs, outputs and what they should be, as far as it
            comes.
        suite: where the case is from, for the record.
        worker: who ran it, for the record.
        meter: measures its memory, and tells those who watch it which stage begins; by default a
            new one.
        judged: takes the tester of a cell whose outputs were compared.
        failed: called with the tester when a stage of the cell fails.
        lowered: takes the record as far as it is known once the program is serialized: all that is
            left of the cell should executing it end the process.
        siblings: what cells of one case share; of nobody else by default.
        go_past: where the backend finds a defect that its emulation can go past, list all of them
            and judge the rest; the cell is as red as without. Cases tagged ``published`` end at
            their first defect: executing and judging them takes minutes.

    Raises:
        UnknownTarget: no such backend or recipe.
        UsageError: what is to be saved or kept cannot be written there.
    """
    start = time.perf_counter()
    target = Target.parse(target) if isinstance(target, str) else target
    backend = backend or registry.backend(target.backend)
    limitation = find(limitations, case, target)

    def say_lowered(run: CellRun) -> None:
        if lowered is not None:
            lowered(_so_far(case, target, seed, run))

    trial = CellRun(
        require_delegation,
        compare_runtimes,
        save,
        keep,
        meter or Meter(),
        judged,
        siblings,
        go_past and PUBLISHED not in case.tags,
        failed,
        say_lowered,
    )
    state = _availability(backend)
    if not (state.available or state.can_lower):
        ending = Ending(Status.UNAVAILABLE, error=state.reason)
    else:
        recipe = recipe or registry.recipe(target, backend)
        only = "lowered only, as asked" if lower_only else state.reason
        ending = trial.end(case, target, seed, backend, recipe, only, limitation)
    seconds = time.perf_counter() - start
    cell = Cell(
        case=case.name,
        target=str(target),
        status=ending.status,
        suite=suite,
        op=case.op,
        tags=sorted(case.tags),
        seed=seed,
        stage=ending.stage,
        error=ending.error,
        traceback=ending.traceback,
        frame=ending.frame,
        vendor_frame=ending.vendor_frame,
        first_divergence=ending.at,
        runtime=trial.runtime,
        delegation=trial.delegation,
        numerics=trial.verdict.numerics if trial.verdict is not None else [],
        severity=trial.severity if ending.status is Status.MISMATCH else None,
        stages=trial.stages,
        memory=trial.meter.peaks,
        seconds=seconds,
        overhead=seconds - sum(trial.stages.values()),
        program_bytes=trial.program_bytes,
        constant_bytes=None if trial.weight is None else trial.weight.constants,
        duplicate_constant_bytes=None if trial.weight is None else trial.weight.duplicates,
        planned_memory=trial.planned_memory,
        first_seconds=None if trial.watch is None else trial.watch.first,
        steady_seconds=None if trial.watch is None else trial.watch.steady,
        limitation=limitation.ref if limitation is not None and ending.excused else None,
        encodings=trial.encodings,
        outputs=trial.outputs,
        properties=trial.properties,
        intermediates=trial.intermediates,
        altered=trial.altered,
        changed_ops=trial.changed_ops,
        worker=worker,
        untelling=case.untelling,
        source=case.source,
        defects=trial.defects,
        dynamic=trial.sizes.dimensions,
        untried_sizes=trial.sizes.untried,
        refused_call=trial.refused_call,
    )
    cell = cell if ending.excused else judge(cell, limitation)
    if keep is not None:
        keep.ended(cell)
    return cell


def _so_far(case: Case, target: Target, seed: int, run: CellRun) -> Cell:
    """What is known of a cell before it is executed."""
    return Cell(
        case=case.name,
        target=str(target),
        status=Status.LOWERED,
        op=case.op,
        tags=sorted(case.tags),
        seed=seed,
        delegation=run.delegation,
        stages=dict(run.stages),
        program_bytes=run.program_bytes,
        constant_bytes=None if run.weight is None else run.weight.constants,
        duplicate_constant_bytes=None if run.weight is None else run.weight.duplicates,
        source=case.source,
    )


def _availability(backend: Backend) -> Availability:
    try:
        return backend.availability()
    except Exception as error:
        return Availability(False, f"availability() of {backend.name} raised {describe(error)}")
