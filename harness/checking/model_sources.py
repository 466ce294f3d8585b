"""Load a model and its inputs: ``FILE.py:NAME``, ``package.module:NAME`` or ``FILE.pt2``."""

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
from harness.model.case import Call, CallInputs, arguments, make_call
from harness.model.files.input_files import read_inputs
from harness.model.seeding import seed_generators

_RETURNS = (
    "a module, (module, inputs) or (module, inputs, inputs by name); inputs are a tuple, a tensor "
    "or a dict of inputs by name"
)


@dataclass(frozen=True)
class InputSet:
    """The inputs of one call, with a label for names and messages."""

    label: str
    given: CallInputs


@dataclass(frozen=True)
class CheckedModel:
    """The model to check.

    Attributes:
        name: name of its cases.
        module: the module; cases copy it.
        sets: sets of inputs, at least one; the first is exported.
        calibration: sets of inputs that calibrate quantizers; empty for ``sets``.
        dynamic_shapes: the ``dynamic_shapes`` of ``torch.export.export``; None for static shapes.
        program: the exported program of the module if it is from a ``.pt2`` file; it decides which
            inputs are accepted.
    """

    name: str
    module: torch.nn.Module
    sets: tuple[InputSet, ...] = field(default=())
    dynamic_shapes: Any = None
    program: ExportedProgram | None = None
    calibration: tuple[InputSet, ...] = ()


def load_model(
    spec: str, files: Sequence[Path] = (), calibration: Sequence[Path] = (), *, seed: int = 0
) -> CheckedModel:
    """Load a model and its inputs.

    A function or a class is called without arguments. All random generators are seeded from
    (seed, name), so that weights and inputs depend on nothing else. Inputs come from the files,
    one set from each file; else from the function's result; else from the module's attribute or
    method ``example_inputs``; else from the ``.pt2`` file.

    Args:
        spec: ``FILE.py:NAME``, ``package.module:NAME`` or ``FILE.pt2``.
        files: files of inputs.
        calibration: files of inputs that calibrate quantizers.
        seed: run seed.

    Raises:
        UsageError: the name does not exist, is not a model, or there are no inputs.
        InputError: a file of inputs cannot be read.
    """
    if spec.endswith(".pt2"):
        path = Path(spec)
        subject = _load_program(path.stem, exported_programs.read_program(path))
    else:
        place, name = named_objects.split_spec(spec)
        stem = Path(place).stem if named_objects.is_file(place) else place.rpartition(".")[2]
        title = case_name(f"{stem}.{name}")
        # A file may draw inputs or weights when it is imported.
        with seed_generators(seed, title):
            found = named_objects.load_object(spec)
        with seed_generators(seed, title):
            subject = _load_object(title, spec, found)
    if files:
        subject = replace(subject, sets=_read_sets(subject, files))
    if not subject.sets:
        raise UsageError(
            f"{spec} has no inputs: return (module, inputs), give the module an attribute or a "
            f"method example_inputs, or name files with --inputs"
        )
    return replace(subject, calibration=_read_sets(subject, calibration))


def _read_sets(subject: CheckedModel, files: Sequence[Path]) -> tuple[InputSet, ...]:
    like = _positional_tensors(subject.sets[0].given) if subject.sets else ()
    given = [make_call(*read_inputs(path, like)) for path in files]
    if subject.program is not None:
        given = [exported_programs.arrange_inputs(subject.program, one) for one in given]
    return tuple(InputSet(path.name, one) for path, one in zip(files, given, strict=True))


def case_name(text: str) -> str:
    """Replace the characters that a case's name cannot have."""
    return re.sub(r"[\s@\[\]]+", "_", text).strip("_") or "model"


def as_given(value: Any) -> CallInputs:
    """Convert a value to the inputs of one call.

    Args:
        value: a tuple or list of positional inputs, one tensor, a dict of inputs by name, or a
            ``Call``.

    Raises:
        UsageError: the value has another type.
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
    raise UsageError(f"inputs are a tuple, a tensor or a dict by name, not {_type_name(value)}")


def _load_program(name: str, program: ExportedProgram) -> CheckedModel:
    example = exported_programs.example_inputs(program)
    sets = () if example is None else (InputSet("example", example),)
    module, shapes = exported_programs.as_module(program), exported_programs.dynamic_shapes(program)
    return CheckedModel(case_name(name), module, sets, shapes, program)


def _load_object(name: str, spec: str, found: Any) -> CheckedModel:
    if not isinstance(found, torch.nn.Module | ExportedProgram | tuple):
        if not callable(found):
            raise UsageError(
                f"{spec} is of type {_type_name(found)}; check takes a function or a module"
            )
        found = _call(spec, found)
    match found:
        case ExportedProgram():
            return _load_program(name, found)
        case torch.nn.Module():
            return CheckedModel(name, found, _own_inputs(spec, found))
        case (torch.nn.Module() as module, inputs):
            return CheckedModel(name, module, (InputSet("example", _as_given(spec, inputs)),))
        case (torch.nn.Module() as module, tuple() | list() as args, Mapping() as kwargs):
            return CheckedModel(
                name, module, (InputSet("example", make_call(tuple(args), kwargs)),)
            )
    raise UsageError(f"{spec} returns {_type_name(found)}; it must return {_RETURNS}")


def _own_inputs(spec: str, module: torch.nn.Module) -> tuple[InputSet, ...]:
    own = getattr(module, "example_inputs", None)
    if callable(own):
        own = _call(f"example_inputs of {spec}", own)
    return () if own is None else (InputSet("example", _as_given(spec, own)),)


def _call(spec: str, function: Callable[[], Any]) -> Any:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
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
    return named_objects.run_user_code(f"{spec} raises", function)


def _as_given(spec: str, value: Any) -> CallInputs:
    try:
        return as_given(value)
    except UsageError as error:
        raise UsageError(f"{spec}: {error}") from None


def _positional_tensors(given: CallInputs) -> list[torch.Tensor]:
    return [item for item in arguments(given)[0] if isinstance(item, torch.Tensor)]


def _type_name(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(type(item).__name__ for item in value)})"
    return type(value).__name__
