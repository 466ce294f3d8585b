"""``python -m harness.checking.worker``: checks in a process of its own, and tells on a pipe."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import msgspec

from harness.checking.messages import (
    WORKER,
    Began,
    Ended,
    Event,
    Finished,
    Locating,
    Lowered,
    Planned,
    Reached,
    Refused,
    Request,
    Traced,
)
from harness.errors import ConformError, UsageError
from harness.record.target import cell_id
from harness.tracing import AUTOMATIC_TRACE_SECONDS
from harness.vendors.quiet import silence_vendors
from harness.workers.worker_status import Board, Doing

if TYPE_CHECKING:
    from harness.checking.custom_passes import MakePass
    from harness.model.case import Case
    from harness.model.recipe import Recipe
    from harness.pipeline.tester import Tester
    from harness.record.cell import Cell
    from harness.record.target import Target


def work(request: Request, tell: Callable[[Event], None], log: TextIO) -> None:
    """Load the model, plan its cells and run those that are not done.

    Args:
        request: the check.
        tell: takes what happens.
        log: gets what is printed while cells run: a model that prints has done so when it was run
            in eager, and would do it again a dozen times for each target.

    Raises:
        ConformError: nothing can be run, in one line.
    """
    silence_vendors()
    from harness.pipeline import speed

    if request.speed:
        speed.prepare()
    from harness.checking import cases, check, custom_passes, dynamic_dimensions, model_sources
    from harness.model import registry
    from harness.pipeline.siblings import Siblings

    if request.speed:
        speed.install()
    targets = check.chosen_targets(request.targets)
    asked = dynamic_dimensions.parse(request.dynamic)
    makers = [custom_passes.load(spec) for spec in request.passes]
    subject = model_sources.load(
        request.source, [Path(file) for file in request.inputs], seed=request.seed
    )
    plan = cases.plan(subject, asked, seed=request.seed)
    pairs = {cell_id(case.name, target): (case, target)
             for case, target in check.pairs(plan.cases, targets)}  # fmt: skip
    states = registry.states((target.backend for target in targets), targets)
    tell(Planned(list(pairs), plan.notes, states))
    _locate(request, pairs, makers, tell, log)
    folder = None if request.programs is None else Path(request.programs)
    board, siblings = Board(Path(request.board), WORKER), Siblings()
    with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        for name, (case, target) in pairs.items():
            if name in request.done:
                continue
            log.flush()
            tell(Began(name, printed=os.fstat(log.fileno()).st_size))
            doing = Doing(pid=os.getpid(), cell=name, budget=request.budget, asked=request.budget)
            meter = board.meter(doing, lambda stage: tell(Reached(stage)))
            doing = msgspec.structs.replace(doing, base=meter.base)
            ran: list[Tester] = []
            failed: list[Tester] = []
            with board.admitted(doing, request.budget):
                cell = check.run_pair(
                    case,
                    target,
                    seed=request.seed,
                    passes=makers,
                    save=None if folder is None else _program(folder, name),
                    meter=meter,
                    judged=ran.append,
                    failed=failed.append,
                    lowered=lambda so_far: tell(Lowered(so_far.to_json())),
                    past_defects=request.past_defects,
                    siblings=siblings,
                )
            tell(Ended(cell.to_json()))
            recipe = custom_passes.recipe_with(target, makers)
            traced = _traced(case, cell, request, recipe, tell, ran, failed)
            if traced is not None:
                tell(traced)


def _locate(
    request: Request,
    pairs: Mapping[str, tuple[Case, Target]],
    makers: Sequence[MakePass],
    tell: Callable[[Event], None],
    log: TextIO,
) -> None:
    """Find the nodes of cells that ended an earlier process."""
    from harness.checking import custom_passes
    from harness.record.cell import Cell

    for record in request.crashed:
        cell = Cell.from_json(record)
        case, target = pairs[cell.id]
        # A record of a death does not say that its case is a model.
        cell.tags = sorted(case.tags)
        tell(Locating(cell.id))
        with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
            traced = _traced(case, cell, request, custom_passes.recipe_with(target, makers), tell)
        if traced is not None:
            tell(traced)


def _traced(
    case: Case,
    cell: Cell,
    request: Request,
    recipe: Recipe | None,
    tell: Callable[[Event], None],
    ran: Sequence[Tester] = (),
    failed: Sequence[Tester] = (),
) -> Traced | None:
    """Where a cell leaves the oracle or fails, or why that is not known; None where there is
    nothing to find."""
    from harness.tracing.divergence import trace_cell

    def say(line: str) -> None:
        tell(Reached(f"tracing, {line}"))

    limit = None if request.trace else AUTOMATIC_TRACE_SECONDS
    found = trace_cell(
        cell,
        case,
        seconds=limit,
        recipe=recipe,
        on_progress=say,
        finished_tester=ran[0] if ran else None,
        failed_tester=failed[0] if failed else None,
        search_failures=True,
    )
    if found is None:
        return None
    if isinstance(found, str):
        return Traced(cell.id, problem=found)
    return Traced(cell.id, msgspec.msgpack.encode(found))


def _program(folder: Path, cell: str) -> Path:
    """The file of a cell's program."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the folder {folder}: {error.strerror}") from error
    return folder / f"{cell.replace('/', '_').replace(':', '_')}.pte"


def _keep_apart(log: int) -> None:
    """What Python prints goes to standard error, as standard output is the table's; what native
    code writes, and the stack of its death, to the log."""
    sys.stdout = sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    faulthandler.enable(file=log)
    # A crash is a row of the table, and needs no core file.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _main(request: str, pipe: str, log: str) -> None:
    _keep_apart(int(log))
    with (
        os.fdopen(int(pipe), "wb", buffering=0) as channel,
        os.fdopen(os.dup(int(log)), "w", buffering=1, errors="backslashreplace") as written,
    ):

        def tell(event: Event) -> None:
            channel.write(msgspec.json.encode(event) + b"\n")

        try:
            work(msgspec.json.decode(request, type=Request), tell, written)
            tell(Finished())
        except ConformError as error:
            tell(Refused(str(error)))
        except BrokenPipeError:
            pass  # nobody listens any more


if __name__ == "__main__":
    _main(*sys.argv[1:])
