"""``check``: a module on every target, and a cell for each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from harness.checking import cases, custom_passes as graph_passes
from harness.checking.custom_passes import MakePass
from harness.checking.dynamic_dimensions import parse as parse_dynamic
from harness.checking.input_layout import explain_layout
from harness.checking.model_sources import InputSet, Subject, as_given, case_name
from harness.errors import UsageError
from harness.execution.memory import Meter
from harness.model import registry
from harness.model.case import Case
from harness.model.selection import parse_list, parse_targets
from harness.pipeline.runner import run_cell
from harness.pipeline.siblings import Siblings
from harness.pipeline.tester import Tester
from harness.record.cell import Cell
from harness.record.target import Target
from harness.tracing.divergence import trace_cell
from harness.tracing.trace_result import add_trace


def check(
    module: torch.nn.Module,
    inputs: Any,
    targets: str | Sequence[Target | str] | None = None,
    *,
    seed: int = 0,
    name: str = "",
    dynamic: str | Sequence[str] = (),
    transform_passes: Sequence[Any] = (),
    past_defects: bool = True,
) -> list[Cell]:
    """Run a module on targets and hold each against the oracle. Nothing is written.

    Args:
        module: any exportable module; it is copied, and the copy put into eval mode.
        inputs: of one call: a tuple, a tensor, a dict of inputs by name or a
            :class:`harness.Call`. A list holds several such sets: those that one program takes are
            its calls, each other one is a case of its own (:func:`harness.checking.cases.plan`).
        targets: targets or their spellings; by default those of a plain run. One that is
            unavailable here has a cell that says so.
        seed: run seed.
        name: of the case; by default that of the module's class.
        dynamic: dimensions that vary, ``NAME:DIM`` or ``NAME:DIM=MIN..MAX``, or ``auto``; the
            program is then called at the ends of their ranges, too.
        transform_passes: graph passes, or classes of them, that run on the edge program before the
            target's own.
        past_defects: list all known defects of a program and judge the rest, where the backend can
            go on past the first.

    Returns:
        A cell for each case and target.

    Raises:
        UsageError: a target, dimension or pass is not there, or inputs are none.
        CaseError: the module does not run on its inputs in eager.
    """
    given = [as_given(one) for one in (inputs if isinstance(inputs, list) else [inputs])]
    if not given:
        raise UsageError("inputs is an empty list; give at least one set")
    sets = [
        InputSet("example" if len(given) == 1 else f"inputs{number}", one)
        for number, one in enumerate(given)
    ]
    subject = Subject(case_name(name or type(module).__name__), module, tuple(sets))
    asked = parse_dynamic([dynamic] if isinstance(dynamic, str) else dynamic)
    made = cases.plan(subject, asked, seed=seed)
    makers = [graph_passes.maker(one) for one in transform_passes]
    cells, siblings = [], Siblings()
    for case, target in pairs(made.cases, chosen_targets(targets)):
        ran: list[Tester] = []
        failed: list[Tester] = []
        cell = run_pair(
            case,
            target,
            seed=seed,
            passes=makers,
            judged=ran.append,
            failed=failed.append,
            past_defects=past_defects,
            siblings=siblings,
        )
        recipe = graph_passes.recipe_with(target, makers)
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


def chosen_targets(targets: str | Sequence[Target | str] | None) -> list[Target]:
    """The targets to check on; those of a plain run where none are named.

    Raises:
        UnknownTarget: one does not exist.
    """
    if targets is None:
        return registry.default_targets()
    if isinstance(targets, str):
        return parse_list(targets, "targets")
    return parse_targets([str(target) for target in targets])


def pairs(made: Sequence[Case], targets: Sequence[Target]) -> Iterator[tuple[Case, Target]]:
    """Each case on each target, the cells of a case one after the other."""
    return ((case, target) for case in made for target in targets)


def run_pair(
    case: Case,
    target: Target,
    *,
    seed: int,
    passes: Sequence[MakePass] = (),
    save: Path | None = None,
    meter: Meter | None = None,
    judged: Callable[[Tester], None] | None = None,
    failed: Callable[[Tester], None] | None = None,
    lowered: Callable[[Cell], None] | None = None,
    past_defects: bool = True,
    siblings: Siblings | None = None,
) -> Cell:
    """Run one case on one target.

    Args:
        case: what is checked.
        target: where.
        seed: run seed.
        passes: make graph passes that run before the target's own.
        save: file that gets the serialized program.
        meter: measures its memory, and tells who listens which stage begins.
        judged: takes the tester of a cell whose outputs were compared.
        failed: called with the tester when a stage of the cell fails.
        lowered: takes what is known of a cell before it is executed.
        past_defects: as :func:`check` takes it.
        siblings: what cells of one case share; of nobody else by default.
    """
    run = functools.partial(
        run_cell,
        target=target,
        seed=seed,
        recipe=graph_passes.recipe_with(target, passes),
        go_past=past_defects,
    )
    cell = run(
        case,
        save=save,
        meter=meter,
        judged=judged,
        failed=failed,
        lowered=lowered,
        siblings=siblings,
    )
    explain_layout(case, cell, seed, run)
    return cell
