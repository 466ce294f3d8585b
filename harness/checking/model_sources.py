"""Whose model it is: ``FILE.py:NAME``, ``package.module:NAME`` or ``FILE.pt2`` with its inputs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from harness.checking import exported_programs, named_objects
from harness.errors import UsageError
from harness.model.case import Call, Given, arguments, named
from harness.model.files.input_files import read_inputs
from harness.model.seeding import seeded

_RETURNS = (
    "a module, (module, inputs) or (module, inputs, inputs by name); inputs are a tuple, a tensor "
    "or a dict of inputs by name"
)


@dataclass(frozen=True)
class InputSet:
    """The inputs of one call, and what to call them in names and messages."""

    label: str
    given: Given


@dataclass(frozen=True)
class Subject:
    """What is checked.

    Attributes:
        name: of its cases.
        module: as it was built, once; cases copy it.
        sets: inputs, at least one set; the first is exported.
        dynamic_shapes: how they may vary, as ``torch.export.export`` takes it; None: not at all.
        program: what the module is of, where that was exported before; knows what inputs it takes.
    """

    name: str
    module: torch.nn.Module
    sets: tuple[InputSet, ...] = field(default=())
    dynamic_shapes: Any = None
    program: ExportedProgram | None = None


def load(spec: str, files: Sequence[Path] = (), *, seed: int = 0) -> Subject:
    """Find a model and its inputs.

    A function is called without arguments, a class of modules is made without; both with every
    random generator seeded from (seed, name), so that weights and inputs depend on nothing else.
    Inputs come from the files, a set a file; else from what the function returns; else from the
    module's ``example_inputs``, an attribute or a method; else from the ``.pt2`` itself.

    Args:
        spec: ``FILE.py:NAME``, ``package.module:NAME`` or ``FILE.pt2``.
        files: files of inputs.
        seed: run seed.

    Raises:
        UsageError: nothing of that name, or not what can be checked, or no inputs; in one line.
        InputError: a file of inputs cannot be read.
    """
    if spec.endswith(".pt2"):
        path = Path(spec)
        subject = _of_program(path.stem, exported_programs.read(path))
    else:
        place, name = named_objects.split(spec)
        stem = Path(place).stem if named_objects.is_file(place) else place.rpartition(".")[2]
        title = case_name(f"{stem}.{name}")
        found = named_objects.find(spec)
        with seeded(seed, title):
            subject = _of_object(title, spec, found)
    if files:
        like = _positional(subject.sets[0].given) if subject.sets else ()
        given = [named(*read_inputs(path, like)) for path in files]
        if subject.program is not None:
            given = [exported_programs.arranged(subject.program, one) for one in given]
        sets = [InputSet(path.name, one) for path, one in zip(files, given, strict=True)]
        subject = replace(subject, sets=tuple(sets))
    if not subject.sets:
        raise UsageError(
            f"{spec} has no inputs: return (module, inputs), give the module an attribute or a "
            f"method example_inputs, or name files with --inputs"
        )
    return subject


def case_name(text: str) -> str:
    """The text with whatever a case's name cannot have replaced."""
    return re.sub(r"[\s@\[\]]+", "_", text).strip("_") or "model"


def as_given(value: Any) -> Given:
    """The inputs of one call, however they are written.

    Args:
        value: a tuple or list of positional inputs, one tensor, inputs by name, or a ``Call``.

    Raises:
        UsageError: it is something else.
    """
    match value:
        case tuple() | Call():
            return value
        case list():
            return tuple(value)
        case torch.Tensor():
            return (value,)
        case Mapping():
            return Call((), value)
    raise UsageError(f"inputs are a tuple, a tensor or a dict by name, not {_kind(value)}")


def _of_program(name: str, program: ExportedProgram) -> Subject:
    example = exported_programs.example_inputs(program)
    sets = () if example is None else (InputSet("example", example),)
    module, shapes = exported_programs.as_module(program), exported_programs.dynamic_shapes(program)
    return Subject(case_name(name), module, sets, shapes, program)


def _of_object(name: str, spec: str, found: Any) -> Subject:
    if not isinstance(found, torch.nn.Module | ExportedProgram | tuple):
        if not callable(found):
            raise UsageError(
                f"{spec} is of type {_kind(found)}; check takes a function or a module"
            )
        found = _called(spec, found)
    match found:
        case ExportedProgram():
            return _of_program(name, found)
        case torch.nn.Module():
            return Subject(name, found, _own_inputs(spec, found))
        case (torch.nn.Module() as module, inputs):
            return Subject(name, module, (InputSet("example", _as_given(spec, inputs)),))
        case (torch.nn.Module() as module, tuple() | list() as args, Mapping() as kwargs):
            return Subject(name, module, (InputSet("example", named(tuple(args), kwargs)),))
    raise UsageError(f"{spec} gives {_kind(found)}; it has to give {_RETURNS}")


def _own_inputs(spec: str, module: torch.nn.Module) -> tuple[InputSet, ...]:
    own = getattr(module, "example_inputs", None)
    if callable(own):
        own = _called(f"example_inputs of {spec}", own)
    return () if own is None else (InputSet("example", _as_given(spec, own)),)


def _called(spec: str, function: Callable[[], Any]) -> Any:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # something of C
        parameters = {}.values()
    needed = [
        one.name
        for one in parameters
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    if needed:
        raise UsageError(
            f"{spec} needs {', '.join(needed)}; name a function that needs no arguments"
        )
    return named_objects.guarded(f"{spec} raises", function)


def _as_given(spec: str, value: Any) -> Given:
    try:
        return as_given(value)
    except UsageError as error:
        raise UsageError(f"{spec}: {error}") from None


def _positional(given: Given) -> list[torch.Tensor]:
    return [item for item in arguments(given)[0] if isinstance(item, torch.Tensor)]


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(type(item).__name__ for item in value)})"
    return type(value).__name__
