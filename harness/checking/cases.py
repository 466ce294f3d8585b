"""Make cases of a model and its inputs. Inputs that one program accepts are its calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from harness.checking import dynamic_dimensions
from harness.checking.dynamic_dimensions import DynamicProgram, RequestedDimension
from harness.checking.model_sources import CheckedModel, InputSet, case_name
from harness.errors import CaseError
from harness.model.case import Built, CallInputs, Case, arguments
from harness.model.metric import Metric
from harness.numerics.module_runs import EagerRuns
from harness.pipeline.dynamic_sizes.extra_calls import choose_sizes
from harness.pipeline.explain.model_frames import find_model_frame
from harness.pipeline.reference.eager_run import run_module_eagerly
from harness.record.cell import MODEL
from harness.record.program_data import Dimension
from harness.vendors.torch import tree_flatten

_NOTHING = "no dimension of the inputs is dynamic"


@dataclass
class _Group:
    """Sets of inputs that are calls of one program."""

    sets: list[InputSet]
    dynamic_program: DynamicProgram | None = None
    further: tuple[CallInputs, ...] = ()
    calibration: tuple[CallInputs, ...] = ()

    @property
    def calls(self) -> list[CallInputs]:
        """The inputs of each call."""
        return [*(one.given for one in self.sets), *self.further]

    def accepts(self, given: CallInputs) -> bool:
        """Whether the program accepts these inputs: of the same shapes, or within its ranges."""
        if _signature(given) == _signature(self.sets[0].given):
            return True
        dynamic_program = self.dynamic_program
        return (
            dynamic_program is not None
            and dynamic_dimensions.explain_rejected_inputs(dynamic_program.program, given) is None
        )


@dataclass(frozen=True)
class CasePlan:
    """The cases of a check.

    Attributes:
        cases: a case for each program.
        notes: notes for the user, a line each: the dynamic dimensions, and the inputs of each case
            if there are several cases.
    """

    cases: list[Case]
    notes: list[str]


def plan_cases(
    subject: CheckedModel,
    requested: Sequence[RequestedDimension] | str | None = None,
    *,
    seed: int = 0,
    metrics: Sequence[Metric] = (),
) -> CasePlan:
    """Make cases of a model.

    A set of inputs with the structure, shapes and dtypes of an earlier set, or within its dynamic
    ranges, is a further call of that program. Calls keep their order, and state carries over from
    call to call. Any other set is another program and case. Each program with dynamic dimensions
    is also called at the ends of its ranges
    (:mod:`harness.pipeline.dynamic_sizes.extra_calls`).

    Args:
        subject: the model.
        requested: dynamic dimensions, instead of the model's own.
        seed: run seed.
        metrics: metrics of all cases.

    Raises:
        CaseError: inputs do not fit the model, or it does not export with these dimensions.
        UsageError: a requested dimension does not exist.
    """
    groups: list[_Group] = []
    notes: list[str] = []
    # Run a copy in eval mode, so that the model itself is not changed.
    case = Case.from_module(subject.name, subject.module, ())
    module = case.make(seed).module
    for one in subject.sets:
        _run_module(subject, case, module, one, seed)
        matching = next((group for group in groups if group.accepts(one.given)), None)
        if matching is not None:
            matching.sets.append(one)
            continue
        group = _Group([one])
        if requested is not None:
            group.dynamic_program = dynamic_dimensions.export_dynamic(module, one.given, requested)
        elif subject.program is not None and subject.dynamic_shapes is not None:
            group.dynamic_program = dynamic_dimensions.export_again(
                module, one.given, subject.program
            )
        groups.append(group)
    for group in groups:
        group.calibration = _choose_calibration(subject, group)
    names = _name_cases(subject.name, groups)
    for name, group in zip(names, groups, strict=True):
        about = f"{name}: " if len(groups) > 1 else ""
        lines = _add_dynamic_calls(group, EagerRuns(seed), module, requested)
        if len(subject.sets) > 1 and group.dynamic_program is None:
            lines.append(f"runs on {', '.join(one.label for one in group.sets)}")
        notes += [f"{about}{line}" for line in lines]
    made = [_make_case(subject, *pair) for pair in zip(names, groups, strict=True)]
    return CasePlan([replace(case, metric=tuple(metrics)) for case in made], notes)


def _choose_calibration(subject: CheckedModel, group: _Group) -> tuple[CallInputs, ...]:
    """Return the calibration inputs that a program takes.

    Raises:
        CaseError: there are some for the model, and the program takes none of them.
    """
    taken = tuple(one.given for one in subject.calibration if group.accepts(one.given))
    if subject.calibration and not taken:
        raise CaseError(
            f"none of the calibration inputs {', '.join(one.label for one in subject.calibration)} "
            f"has the shapes and dtypes of the inputs {group.sets[0].label}"
        )
    return taken


def _add_dynamic_calls(
    group: _Group,
    runs: EagerRuns,
    module: torch.nn.Module,
    requested: Sequence[RequestedDimension] | str | None,
) -> list[str]:
    """Add calls at the ends of a program's dynamic ranges.

    Args:
        group: the program, with its sets of inputs.
        runs: eager runs.
        module: the model.
        requested: requested dynamic dimensions.

    Returns:
        Notes: the dynamic dimensions, their ranges and the sizes that are executed, a line each.

    Raises:
        CaseError: no second size of the requested dimensions can be executed.
    """
    if group.dynamic_program is None:
        return []
    sizes = choose_sizes(
        group.dynamic_program.program, group.calls, lambda calls: runs(module, calls)
    )
    group.further = sizes.calls
    if requested is None or any(len(set(one.sizes)) > 1 for one in sizes.dimensions):
        labels = [one.label for one in group.sets] if len(group.sets) > 1 else []
        return [
            *group.dynamic_program.notes,
            *(
                f"{one} varies, {one.span}; tested at {_format_sizes(one, labels)}"
                for one in sizes.dimensions
            ),
            *sizes.untried,
        ]
    why = f": {'; '.join(sizes.untried)}" if sizes.untried else ": each is constant in the model"
    if requested != dynamic_dimensions.AUTO:
        raise CaseError(f"no second size within the ranges can be executed{why}")
    group.dynamic_program = None
    return [f"{_NOTHING}{why}"]


def _format_sizes(one: Dimension, labels: Sequence[str]) -> str:
    """The executed sizes of a dimension, with the input files that have each size."""
    found: dict[int, list[str]] = {}
    for call, size in enumerate(one.sizes):
        found.setdefault(size, []).extend(labels[call : call + 1])
    return ", ".join(
        f"{size} ({', '.join(files)})" if files else str(size) for size, files in found.items()
    )


def _make_case(subject: CheckedModel, name: str, group: _Group) -> Case:
    args, kwargs = arguments(group.sets[0].given)
    shapes = None if group.dynamic_program is None else group.dynamic_program.shapes
    return Case.from_module(
        name,
        subject.module,
        args,
        kwargs or None,
        dynamic_shapes=shapes,
        calls=group.calls[1:],
        calibration=group.calibration,
        tags=[MODEL, *(["dynamic"] if shapes is not None else [])],
    )


def _name_cases(base: str, groups: Sequence[_Group]) -> list[str]:
    """A name for each case: the model's name; for all but the first, with the inputs' label."""
    names: list[str] = []
    for group in groups:
        name = f"{base}/{case_name(group.sets[0].label)}" if names else base
        while name in names:
            name += "_"
        names.append(name)
    return names


def _run_module(
    subject: CheckedModel, case: Case, module: torch.nn.Module, one: InputSet, seed: int
) -> None:
    """Run the model eagerly once; a model that fails in eager is not checked."""
    if subject.program is not None:
        refusal = dynamic_dimensions.explain_rejected_inputs(subject.program, one.given)
        if refusal is not None:
            raise CaseError(f"{subject.name} does not take the inputs {one.label}: {refusal}")
    try:
        run_module_eagerly(case, seed, "float32", Built(module, (one.given,)), EagerRuns(seed))
    except CaseError as error:
        frame = find_model_frame(error)
        raise CaseError(
            f"{subject.name} on the inputs {one.label}: {error}{f', at {frame}' if frame else ''}"
        ) from error


def _signature(given: CallInputs) -> Any:
    leaves, spec = tree_flatten(arguments(given))
    return spec, [
        (leaf.shape, leaf.dtype) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves
    ]
