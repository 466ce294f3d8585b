"""Check a module on targets (:func:`check`)."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from harness.checking import cases
from harness.checking.custom_recipe import RecipeChanges, check_module_names, make_pass_factory
from harness.checking.dynamic_dimensions import parse_dynamic
from harness.checking.input_layout import explain_layout
from harness.checking.model_sources import CheckedModel, InputSet, as_given, case_name
from harness.errors import UsageError
from harness.execution.native.profile import profile_program
from harness.model import registry
from harness.model.case import Case
from harness.model.metric import GivenMetrics, as_metrics
from harness.model.selection import parse_list, parse_targets
from harness.model.variations.covering import vary_targets
from harness.pipeline.cell_options import CellOptions
from harness.pipeline.quantization.quality import QualityOptions
from harness.pipeline.runner import run_cell
from harness.pipeline.shared_case_work import SharedCaseWork
from harness.pipeline.tester import Tester
from harness.record.cell import Cell
from harness.record.target import Target
from harness.tracing.divergence import trace_cell
from harness.tracing.trace_result import add_trace


def check(  # noqa: PLR0913  # the options of conform check
    module: torch.nn.Module,
    inputs: Any,
    targets: str | Sequence[Target | str] | None = None,
    *,
    seed: int = 0,
    name: str = "",
    dynamic: str | Sequence[str] = (),
    transform_passes: Sequence[Any] = (),
    vary: str = "",
    past_defects: bool = True,
    calibration: Sequence[Any] = (),
    keep_float: Sequence[str] = (),
    quality: bool = False,
    reach_sqnr: float | None = None,
    metric: GivenMetrics = None,
) -> list[Cell]:
    """Run a module on targets and compare it with the oracle. Nothing is written.

    Args:
        module: any exportable module. It is copied, and the copy runs in eval mode.
        inputs: the inputs of one call: a tuple, a tensor, a dict of inputs by name or a
            :class:`harness.Call`. A list contains several such sets. Sets that one program accepts
            are its calls, any other set is another case
            (:func:`harness.checking.cases.plan_cases`).
        targets: targets or their spellings; by default the targets of a plain run. The cell of an
            unavailable target has the status ``unavailable``.
        seed: run seed.
        name: name of the case; by default the name of the module's class.
        dynamic: dynamic dimensions: ``NAME:DIM``, ``NAME:DIM=MIN..MAX`` or ``auto``. The program is
            also called at the ends of their ranges.
        transform_passes: graph passes, or classes of them, that run on the edge program before the
            target's own passes.
        vary: settings of lowering with which each target also runs: names separated by commas, or
            ``all`` (:func:`harness.model.variations.covering.vary_targets`).
        past_defects: list all known defects of a program and judge the rest, where the backend can
            continue past the first defect.
        calibration: sets of inputs, as ``inputs``, that calibrate quantizers instead of ``inputs``.
        keep_float: names of modules that quantizers leave in float.
        quality: measure which roundings of a quantizer cause the error
            (:attr:`harness.record.evidence.Quality.parts`); takes a run of the model for each.
        metric: as :attr:`harness.Case.metric`.
        reach_sqnr: find modules that, left in float, bring a quantized graph to this SQNR in dB.

    Returns:
        A cell for each case and target.

    Raises:
        UsageError: a target, dimension or pass does not exist, or ``inputs`` is not valid.
        CaseError: the module does not run on its inputs in eager mode.
    """
    given = [as_given(one) for one in (inputs if isinstance(inputs, list) else [inputs])]
    if not given:
        raise UsageError("inputs is an empty list; give at least one set")
    sets = [
        InputSet("example" if len(given) == 1 else f"inputs{number}", one)
        for number, one in enumerate(given)
    ]
    calibrating = [
        InputSet(f"calibration{number}", as_given(one)) for number, one in enumerate(calibration)
    ]
    subject = CheckedModel(
        case_name(name or type(module).__name__),
        module,
        tuple(sets),
        calibration=tuple(calibrating),
    )
    check_module_names(module, keep_float)
    requested = parse_dynamic([dynamic] if isinstance(dynamic, str) else dynamic)
    made = cases.plan_cases(subject, requested, seed=seed, metrics=as_metrics(metric))
    changes = RecipeChanges([make_pass_factory(one) for one in transform_passes], keep_float)
    cells, shared_work = [], SharedCaseWork()
    for case, target in pair_cases_and_targets(made.cases, resolve_targets(targets, vary)):
        ran: list[Tester] = []
        failed: list[Tester] = []
        cell = check_cell(
            case,
            target,
            seed=seed,
            changes=changes,
            options=CellOptions(
                continue_past_defects=past_defects,
                quality=QualityOptions(quality, reach_sqnr),
                shared_work=shared_work,
                on_compared=ran.append,
                on_failure=failed.append,
            ),
        )
        recipe = changes.change(target)
        found = trace_cell(
            cell,
            case,
            recipe=recipe,
            finished_tester=ran[0] if ran else None,
            failed_tester=failed[0] if failed else None,
            search_failures=True,
        )
        cell = cell if found is None else add_trace(cell, found)
        registry.note_known_issues(cell)
        cells.append(cell)
    return cells


def resolve_targets(
    targets: str | Sequence[Target | str] | None, settings: str = ""
) -> list[Target]:
    """The targets to check on and their variations; by default the targets of a plain run.

    Raises:
        UnknownTarget: a target or a setting does not exist.
    """
    if targets is None:
        chosen = registry.default_targets()
    elif isinstance(targets, str):
        chosen = parse_list(targets, "targets")
    else:
        chosen = parse_targets([str(target) for target in targets])
    return vary_targets(chosen, settings)


def pair_cases_and_targets(
    made: Sequence[Case], targets: Sequence[Target]
) -> Iterator[tuple[Case, Target]]:
    """Pair each case with each target; the pairs of one case follow each other."""
    return ((case, target) for case in made for target in targets)


def check_cell(
    case: Case,
    target: Target,
    *,
    seed: int,
    changes: RecipeChanges = RecipeChanges(),  # noqa: B008  (frozen)
    options: CellOptions,
) -> Cell:
    """Run one case on one target.

    Args:
        case: the case.
        target: the target.
        seed: run seed.
        changes: changes of the target's recipe.
        options: how the cell runs.
    """
    compared: list[Tester] = []

    def note(tester: Tester) -> None:
        compared.append(tester)
        if options.on_compared is not None:
            options.on_compared(tester)

    recipe = changes.change(target)
    noting = replace(options, on_compared=note)
    cell = run_cell(case, target, seed=seed, recipe=recipe, options=noting)
    plain = CellOptions(continue_past_defects=options.continue_past_defects)
    run_again = functools.partial(run_cell, target=target, seed=seed, recipe=recipe, options=plain)
    explain_layout(case, cell, seed, run_again)
    for tester in compared:
        _add_profile(cell, tester)
    return cell


def _add_profile(cell: Cell, tester: Tester) -> None:
    """Measure the time of delegates and fallback nodes, if the ExecuTorch runtime ran the cell."""
    if cell.runtime == "native" and cell.delegation.delegates:
        attempt = tester.attempt
        with contextlib.suppress(RuntimeError):  # without a profile the check is complete as well
            cell.profile = profile_program(
                attempt.lowered.data, attempt.calls[0], cell.first_seconds or 0.0
            )
