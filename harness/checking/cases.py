"""Cases of a model and its inputs: sets that one program takes are its calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.checking import dynamic_dimensions
from harness.checking.dynamic_dimensions import Varied, Varying
from harness.checking.model_sources import InputSet, Subject, case_name
from harness.errors import CaseError
from harness.model.case import Built, Case, Given, arguments
from harness.numerics.module_runs import EagerRuns
from harness.pipeline.dynamic_sizes.extra_calls import further_sizes
from harness.pipeline.explain.model_frames import model_frame
from harness.pipeline.reference.eager_run import rehearse
from harness.record.cell import MODEL
from harness.record.program_data import Dimension
from harness.vendors.torch import tree_flatten

_NOTHING = "no dimension of the inputs varies"


@dataclass
class _Group:
    """Sets of inputs that are calls of one program."""

    sets: list[InputSet]
    varied: Varied | None = None
    further: tuple[Given, ...] = ()

    @property
    def calls(self) -> list[Given]:
        """The inputs of each call."""
        return [*(one.given for one in self.sets), *self.further]

    def takes(self, given: Given) -> bool:
        """Whether the program takes these inputs: of the same shapes, or within its ranges."""
        if _signature(given) == _signature(self.sets[0].given):
            return True
        varied = self.varied
        return varied is not None and dynamic_dimensions.refusal_of(varied.program, given) is None


@dataclass(frozen=True)
class Plan:
    """What is to be run.

    Attributes:
        cases: a case for each program.
        notes: what is to be known of them, a line each: which dimensions vary, which inputs a
            case runs on where there are several.
    """

    cases: list[Case]
    notes: list[str]


def plan(subject: Subject, asked: Sequence[Varying] | str | None = None, *, seed: int = 0) -> Plan:
    """Make cases of a model.

    Sets of inputs with the same structure, shapes and dtypes as an earlier one, or within its
    ranges where dimensions vary, are further calls of that program, in their order: a module with
    state carries it from one to the next, and so does its reference. Every other set is a program
    and a case of its own. Where dimensions vary each program is also called at the ends of their
    ranges (:mod:`harness.pipeline.dynamic_sizes.extra_calls`).

    Args:
        subject: the model.
        asked: dimensions that are to vary, instead of the subject's own.
        seed: run seed.

    Raises:
        CaseError: inputs do not fit the model, or it does not export with such dimensions.
        UsageError: a dimension that is asked for is not there.
    """
    groups: list[_Group] = []
    notes: list[str] = []
    # A copy to try things on, in eval mode: the model itself stays as it was built.
    case = Case.from_module(subject.name, subject.module, ())
    module = case.make(seed).module
    for one in subject.sets:
        _try(subject, case, module, one, seed)
        home = next((group for group in groups if group.takes(one.given)), None)
        if home is not None:
            home.sets.append(one)
            continue
        group = _Group([one])
        if asked is not None:
            group.varied = dynamic_dimensions.export(module, one.given, asked)
        elif subject.program is not None and subject.dynamic_shapes is not None:
            group.varied = dynamic_dimensions.export_again(module, one.given, subject.program)
        groups.append(group)
    names = _names(subject.name, groups)
    for name, group in zip(names, groups, strict=True):
        about = f"{name}: " if len(groups) > 1 else ""
        lines = _vary(group, EagerRuns(seed), module, asked)
        if len(subject.sets) > 1 and group.varied is None:
            lines.append(f"runs on {', '.join(one.label for one in group.sets)}")
        notes += [f"{about}{line}" for line in lines]
    return Plan([_case(subject, *pair) for pair in zip(names, groups, strict=True)], notes)


def _vary(
    group: _Group, runs: EagerRuns, module: torch.nn.Module, asked: Sequence[Varying] | str | None
) -> list[str]:
    """Call a program at the ends of its ranges, too.

    Args:
        group: the program, with its sets of inputs.
        runs: eager runs.
        module: the model.
        asked: dimensions that were asked to vary.

    Returns:
        Which dimensions vary, between which sizes, and at which sizes they run, in lines.

    Raises:
        CaseError: dimensions that were named have no second size.
    """
    if group.varied is None:
        return []
    sizes = further_sizes(group.varied.program, group.calls, lambda calls: runs(module, calls))
    group.further = sizes.calls
    if asked is None or any(len(set(one.sizes)) > 1 for one in sizes.dimensions):
        labels = [one.label for one in group.sets] if len(group.sets) > 1 else []
        return [
            *group.varied.notes,
            *(
                f"{one} varies, {one.span}; tested at {_sizes(one, labels)}"
                for one in sizes.dimensions
            ),
            *sizes.untried,
        ]
    why = f": {'; '.join(sizes.untried)}" if sizes.untried else ": each is a constant to the model"
    if asked != dynamic_dimensions.AUTO:
        raise CaseError(f"no second size within the ranges runs{why}")
    group.varied = None
    return [f"{_NOTHING}{why}"]


def _sizes(one: Dimension, labels: Sequence[str]) -> str:
    """The sizes of a dimension that are executed, each once, with the files that have it."""
    found: dict[int, list[str]] = {}
    for call, size in enumerate(one.sizes):
        found.setdefault(size, []).extend(labels[call : call + 1])
    return ", ".join(
        f"{size} ({', '.join(files)})" if files else str(size) for size, files in found.items()
    )


def _case(subject: Subject, name: str, group: _Group) -> Case:
    args, kwargs = arguments(group.sets[0].given)
    shapes = None if group.varied is None else group.varied.shapes
    return Case.from_module(
        name,
        subject.module,
        args,
        kwargs or None,
        dynamic_shapes=shapes,
        calls=group.calls[1:],
        tags=[MODEL, *(["dynamic"] if shapes is not None else [])],
    )


def _names(base: str, groups: Sequence[_Group]) -> list[str]:
    """A name for each case: the model's, and for all but the first what its inputs are called."""
    names: list[str] = []
    for group in groups:
        name = f"{base}/{case_name(group.sets[0].label)}" if names else base
        while name in names:
            name += "_"
        names.append(name)
    return names


def _try(subject: Subject, case: Case, module: torch.nn.Module, one: InputSet, seed: int) -> None:
    """Run the model itself once: what eager refuses is nobody's to lower."""
    if subject.program is not None:
        refusal = dynamic_dimensions.refusal_of(subject.program, one.given)
        if refusal is not None:
            raise CaseError(f"{subject.name} does not take the inputs {one.label}: {refusal}")
    try:
        rehearse(case, seed, "float32", Built(module, (one.given,)), EagerRuns(seed))
    except CaseError as error:
        frame = model_frame(error)
        raise CaseError(
            f"{subject.name} on the inputs {one.label}: {error}{f', at {frame}' if frame else ''}"
        ) from error


def _signature(given: Given) -> Any:
    leaves, spec = tree_flatten(arguments(given))
    return spec, [
        (leaf.shape, leaf.dtype) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves
    ]
