"""run_cell: take a case through all stages on a target and record what came of it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from harness import registry
from harness.backend import Backend, Emulating, Recipe
from harness.case import Case
from harness.cell import CROSS_BACKEND, Cell, Output, Status
from harness.errors import StageFailure, UnsupportedProgram, describe
from harness.limitation import Limitation, find, judge
from harness.target import Target
from harness.tester import Tester

_TRACEBACK_LINES = 60


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
) -> Cell:
    """Run one case on one target.

    Never raises for what the case or the backend does: that becomes the cell's status, stage
    and error.

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

    Raises:
        UnknownTarget: no such backend or recipe.
    """
    start = time.perf_counter()
    target = Target.parse(target) if isinstance(target, str) else target
    cell = Cell(
        case=case.name,
        target=str(target),
        status=Status.FAILED,
        op=case.op,
        tags=sorted(case.tags),
        seed=seed,
    )
    backend = backend or registry.backend(target.backend)
    state = backend.availability()
    if not _admit(cell, case, target, backend, recipe):
        return cell
    only = "lowered only, as asked" if lower_only else state.reason
    limitation = find(limitations, case, target)
    if limitation is not None and not limitation.run:
        cell.status = limitation.shown_as
        cell.limitation = limitation.ref
        cell.error = "not run: the limitation says that running it would hurt other cells"
        return cell
    tester: Tester | None = None
    try:
        tester = Tester(case, target, seed=seed, recipe=recipe, backend=backend)
        _drive(tester, cell, require_delegation or tester.recipe.require_delegation, save, only)
        if compare_runtimes and cell.runtime == "native" and cell.delegation.delegates:
            _compare_runtimes(tester, cell)
    except StageFailure as failure:
        is_gap = isinstance(failure.cause, UnsupportedProgram)
        cell.status = Status.UNSUPPORTED if is_gap else Status.FAILED
        cell.stage = failure.stage
        cell.error = describe(failure.cause)
        cell.traceback = _traceback(failure.cause)
    cell.seconds = time.perf_counter() - start
    if tester is not None:
        cell.stages = dict(tester.seconds)
    cell.overhead = cell.seconds - sum(cell.stages.values())
    return judge(cell, limitation)


def lower(tester: Tester) -> None:
    """Take a tester through the stages of its recipe up to the serialized program.

    Raises:
        StageFailure: naming the stage that failed.
    """
    if tester.recipe.quantize_weights is not None:
        tester.quantize_weights()
    tester.export()
    if tester.recipe.quantizer is not None:
        tester.quantize()
    tester.lower().to_executorch().serialize()


def _admit(cell: Cell, case: Case, target: Target, backend: Backend, recipe: Recipe | None) -> bool:
    """Whether the cell can run at all; otherwise its status says why not."""
    availability = backend.availability()
    if not (availability.available or availability.can_lower):
        cell.status = Status.UNAVAILABLE
        cell.error = availability.reason
        return False
    reason = (recipe or registry.recipe(target, backend)).unsupported(case)
    if reason is not None:
        cell.status = Status.UNSUPPORTED
        cell.error = reason
        return False
    return True


def _drive(tester: Tester, cell: Cell, must_delegate: bool, save: Path | None, only: str) -> None:
    lower(tester)
    cell.delegation = tester.delegation
    cell.program_bytes = len(tester.program)
    if save is not None:
        save.write_bytes(tester.program)
    if must_delegate and not cell.delegation.delegates:
        cell.stage = "lower"
        cell.error = "nothing was delegated, and the target requires delegation"
        return
    if not _verified(tester, cell):
        return
    if only:
        cell.status = Status.LOWERED
        cell.error = only
        return
    tester.run()
    cell.runtime = tester.execution.runtime
    verdict = tester.compare().verdict
    cell.numerics = verdict.numerics
    if CROSS_BACKEND in cell.tags:
        cell.outputs = [
            Output(call=call, output=index, values=tensor.double().flatten().tolist())
            for call, outputs in enumerate(tester.execution.outputs)
            for index, tensor in enumerate(outputs)
            if tensor.is_floating_point()
        ]
    cell.status = Status.PASSED if verdict.passed else Status.MISMATCH
    if not verdict.passed:
        cell.stage = "compare"
        cell.error = verdict.problem


def _verified(tester: Tester, cell: Cell) -> bool:
    """Whether the lowered program is what its recipe stands for; its weights go on record."""
    recipe = tester.recipe
    with tester.attributed("lower"):
        problem = recipe.verify(tester) if recipe.verify is not None else None
        found = recipe.encodings(tester) if recipe.encodings is not None else []
    keep = CROSS_BACKEND in cell.tags
    cell.encodings = [one if keep else one.brief() for one in found]
    if problem is None:
        return True
    cell.stage = "lower"
    cell.error = problem
    return False


def _compare_runtimes(tester: Tester, cell: Cell) -> None:
    if not isinstance(tester.backend, Emulating):
        return
    emulated = tester.emulate()
    if emulated.passed != tester.verdict.passed:
        cell.status = Status.MISMATCH
        cell.stage = "compare"
        cell.error = (
            f"the runtimes disagree: native {tester.verdict.problem or 'conforms'}, "
            f"emulated {emulated.problem or 'conforms'}"
        )


def _traceback(error: BaseException) -> str:
    lines = "".join(traceback.format_exception(error)).splitlines()
    if len(lines) > _TRACEBACK_LINES:
        lines = [f"... {len(lines) - _TRACEBACK_LINES} lines above", *lines[-_TRACEBACK_LINES:]]
    return "\n".join(lines)
