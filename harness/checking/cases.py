"""Cases of a model and its inputs: sets that one program takes are its calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram

from harness.case import Built, Case, Given, arguments
from harness.checking import dynamic
from harness.checking.dynamic import Varying
from harness.checking.sources import InputSet, Subject, case_name
from harness.errors import CaseError
from harness.numerics.eager import EagerRuns
from harness.pipeline.explaining.frames import model_frame
from harness.pipeline.reference.rehearsal import rehearse
from harness.private.torch import tree_flatten
from harness.record.cell import MODEL

_NOTHING = "no dimension of the inputs varies"


@dataclass
class _Group:
    """Sets of inputs that are calls of one program."""

    sets: list[InputSet]
    shapes: Any = None
    program: ExportedProgram | None = None
    further: list[Given] = field(default_factory=list)

    def takes(self, given: Given) -> bool:
        """Whether the program takes these inputs: of the same shapes, or within its ranges."""
        if _signature(given) == _signature(self.sets[0].given):
            return True
        return self.program is not None and dynamic.refusal_of(self.program, given) is None


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
    and a case of its own. Where dimensions vary each program is also called with another size.

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
            found = dynamic.export(module, one.given, asked)
            notes += _let_vary(group, *found, if_any=asked == dynamic.AUTO)
        elif subject.dynamic_shapes is not None:
            shapes = subject.dynamic_shapes
            notes += _let_vary(group, dynamic.exported(module, one.given, shapes), shapes)
        groups.append(group)
    names = _names(subject.name, groups)
    if len(subject.sets) > 1:
        notes += [
            f"{name} runs on {', '.join(one.label for one in group.sets)}"
            for name, group in zip(names, groups, strict=True)
        ]
    return Plan([_case(subject, *pair) for pair in zip(names, groups, strict=True)], notes)


def _let_vary(
    group: _Group, program: ExportedProgram, shapes: Any, *, if_any: bool = False
) -> list[str]:
    """Call the program with another size, too; what varies, in lines.

    Args:
        group: what varies.
        program: exported so.
        shapes: the same for a further export.
        if_any: that nothing varies is no error.
    """
    given = group.sets[0].given
    if not program.range_constraints:
        return [f"{_NOTHING}: each is a constant to the model"]
    try:
        other = dynamic.vary(program, given)
    except CaseError as error:
        if not if_any:
            raise
        return [f"{_NOTHING}: {error}"]
    group.program, group.shapes = program, shapes
    group.further.append(other)
    return list(dynamic.ranges(program, given, other))


def _case(subject: Subject, name: str, group: _Group) -> Case:
    args, kwargs = arguments(group.sets[0].given)
    return Case.from_module(
        name,
        subject.module,
        args,
        kwargs or None,
        dynamic_shapes=group.shapes,
        calls=[*(one.given for one in group.sets[1:]), *group.further],
        tags=[MODEL, *(["dynamic"] if group.shapes is not None else [])],
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
        refusal = dynamic.refusal_of(subject.program, one.given)
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
