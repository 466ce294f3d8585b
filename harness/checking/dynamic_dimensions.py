"""Dimensions that vary: asked for by name, found, or declared by a program that was handed in."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import Dim, ExportedProgram, ShapesCollection

from harness.checking import exported_programs
from harness.errors import CaseError, UsageError, describe
from harness.model.case import Given, arguments
from harness.pipeline.dynamic_sizes import symbols
from harness.pipeline.dynamic_sizes.symbols import Range
from harness.pipeline.explain.model_frames import model_frame
from harness.vendors.torch import tree_flatten

AUTO = "auto"
"""Asks for every dimension that the model lets vary."""

# How torch.export refuses a dimension that the model fixes.
_CONSTANT = re.compile(
    r"L\['(\w+)'\][^\n]*size\(\)\[(\d+)\] as dynamic but [^\n]* a constant \((\d+)\)"
)
_SPELLING = re.compile(r"(\w+):(\d+)(?:=(\d+)\.\.(\d+))?")


@dataclass(frozen=True)
class Varying:
    """One dimension of one input that is asked to vary.

    Attributes:
        name: parameter of the module's ``forward``.
        dim: number of the dimension.
        low: least size; None for what export finds.
        high: largest size; None for twice that of the example.
    """

    name: str
    dim: int
    low: int | None = None
    high: int | None = None

    @classmethod
    def parse(cls, text: str) -> Varying:
        """Read ``NAME:DIM`` or ``NAME:DIM=MIN..MAX``.

        Raises:
            UsageError: it is not spelled that way, or the range is empty.
        """
        found = _SPELLING.fullmatch(text)
        if found is None:
            raise UsageError(
                f"--dynamic {text!r} is neither {AUTO} nor NAME:DIM[=MIN..MAX], such as x:0=1..16"
            )
        name, dim, low, high = found.groups()
        if low is None:
            return cls(name, int(dim))
        if int(low) >= int(high):
            raise UsageError(f"--dynamic {text!r}: {low}..{high} leaves no two sizes")
        return cls(name, int(dim), int(low), int(high))

    def __str__(self) -> str:
        return f"{self.name}:{self.dim}"


def parse(texts: Sequence[str]) -> list[Varying] | str | None:
    """What ``--dynamic`` asks for: dimensions, :data:`AUTO`, or nothing.

    Raises:
        UsageError: a spelling is wrong, or both are asked for.
    """
    if AUTO in texts:
        if set(texts) != {AUTO}:
            raise UsageError(f"--dynamic {AUTO} finds all dimensions; leave out the others")
        return AUTO
    return [Varying.parse(text) for text in texts] or None


@dataclass(frozen=True)
class Varied:
    """A program that was exported with dimensions that vary.

    Attributes:
        program: the program.
        shapes: the same for a further export, as ``torch.export.export`` takes it.
        notes: where its ranges are not those that were asked for, a line each.
    """

    program: ExportedProgram
    shapes: Any
    notes: tuple[str, ...] = ()


def export(module: torch.nn.Module, given: Given, asked: Sequence[Varying] | str) -> Varied:
    """Export with the dimensions that are asked to vary, to learn which the model lets vary.

    A dimension of another input that has to have the same size varies with one that is named.

    Raises:
        UsageError: a name or dimension is not there, or is of no tensor.
        CaseError: the model does not export so, or a dimension that is named is a constant to it.
    """
    if isinstance(asked, str):
        found = _shapes(module, given, [], follow=True)
        return Varied(export_with(module, given, found), found)
    try:
        found = _shapes(module, given, asked, follow=False)
        program = export_with(module, given, found)
    except CaseError:
        found = _shapes(module, given, asked, follow=True)
        program = export_with(module, given, found)
    args, kwargs = arguments(given)
    parameters = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    tensors = [(one, parameters[one.name]) for one in asked]
    # Dim.DYNAMIC and Dim.AUTO raise a minimum of 1 to 2; a Dim with a name does not.
    for ranges in _asked_ranges(program, given, tensors):
        dims = exported_programs.named_dims(program, ranges)
        collection: Any = ShapesCollection()  # type: ignore[no-untyped-call]  # torch's is untyped
        for leaf, hints in zip(tree_flatten((args, kwargs))[0], dims, strict=True):
            if hints:
                collection[leaf] = hints
        named = collection.dynamic_shapes(module, args, kwargs)
        try:
            program, found = export_with(module, given, named), named
            break
        except CaseError:  # the model does not allow it; the ranges found before stand
            continue
    return Varied(program, found, tuple(_differences(program, given, tensors)))


def export_again(module: torch.nn.Module, given: Given, handed: ExportedProgram) -> Varied:
    """Export the module of a program that was handed in, with the ranges that it declares.

    Raises:
        CaseError: it does not export again.
    """
    shapes = exported_programs.dynamic_shapes(handed)
    try:
        program = export_with(module, given, shapes)
    except CaseError:
        shapes = exported_programs.dynamic_shapes(handed, is_exact=False)
        program = export_with(module, given, shapes)
    names, spans = symbols.input_names(handed), _spans(program)
    return Varied(
        program,
        shapes,
        tuple(
            f"{names[number]}:{dim}: the program declares {_span(declared)}; torch.export makes it "
            f"{_span(spans.get((number, dim)))} when the program is exported again"
            for (number, dim), declared in _spans(handed).items()
            if spans.get((number, dim)) != declared
        ),
    )


def _asked_ranges(
    program: ExportedProgram, given: Given, asked: Sequence[tuple[Varying, torch.Tensor]]
) -> list[dict[Any, Range]]:
    """Ranges to try for the symbols of a program, where it has others than were asked for: those
    that were asked for, then only their minimums."""
    found = symbols.ranges(program)
    both: dict[Any, Range] = {}
    least: dict[Any, Range] = {}
    for one, size in _asked_sizes(program, given, asked):
        linear = symbols.as_linear(size)
        if linear is None or linear[1:] != (1, 0):
            continue
        symbol, (low, high) = linear[0], (one.low or 0, one.high)
        before = both.get(symbol, (low, high))
        highs = [each for each in (high, before[1]) if each is not None]
        both[symbol] = max(low, before[0]), min(highs, default=None)
        least[symbol] = both[symbol][0], found[symbol][1]
    if all(found[symbol] == span for symbol, span in both.items()):
        return []
    return [both, least]


def _asked_sizes(
    program: ExportedProgram, given: Given, asked: Sequence[tuple[Varying, torch.Tensor]]
) -> Iterator[tuple[Varying, torch.SymInt]]:
    """Each dimension that was given a range, and its size."""
    leaves = tree_flatten(arguments(given))[0]
    for number, dim, size in symbols.varying(program):
        for one, tensor in asked:
            if one.low is not None and one.dim == dim and tensor is leaves[number]:
                yield one, size


def _differences(
    program: ExportedProgram, given: Given, asked: Sequence[tuple[Varying, torch.Tensor]]
) -> Iterator[str]:
    for one, size in _asked_sizes(program, given, asked):
        span = symbols.extent(program, size)
        if span != (one.low, one.high):
            yield (
                f"{one}: {one.low} to {one.high} was asked for; the model or torch.export makes it "
                f"{_span(span)}"
            )


def _spans(program: ExportedProgram) -> dict[tuple[int, int], Range]:
    return {
        (number, dim): symbols.extent(program, size)
        for number, dim, size in symbols.varying(program)
    }


def _span(span: Range | None) -> str:
    if span is None:
        return "a constant"
    low, high = span
    return f"{low} and more" if high is None else f"{low} to {high}"


def _shapes(
    module: torch.nn.Module, given: Given, asked: Sequence[Varying], *, follow: bool
) -> Any:
    """The dimensions that are named; where others follow, those of their sizes if any is named,
    else all."""
    args, kwargs = arguments(given)
    parameters = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    named: dict[int, dict[int, Any]] = {}
    sizes: set[int] = set()
    for one in asked:
        tensor = parameters.get(one.name)
        if not isinstance(tensor, torch.Tensor) or one.dim >= tensor.dim():
            raise UsageError(f"--dynamic {one}: {_what_is(one, tensor, parameters)}")
        size = tensor.shape[one.dim]
        _check_size(one, size)
        high = 2 * size if one.high is None else one.high
        named.setdefault(id(tensor), {})[one.dim] = Dim.DYNAMIC(min=one.low, max=high)
        sizes.add(size)
    collection: Any = ShapesCollection()  # type: ignore[no-untyped-call]  # torch's is untyped
    for leaf in tree_flatten((args, kwargs))[0]:
        if isinstance(leaf, torch.Tensor):
            hints = named.get(id(leaf), {})
            if follow and not hints:
                hints = {
                    dim: Dim.AUTO(max=2 * size) if not asked else Dim.AUTO
                    for dim, size in enumerate(leaf.shape)
                    if size > 1 and (not asked or size in sizes)
                }
            collection[leaf] = hints
    return collection.dynamic_shapes(module, args, kwargs)


def export_with(module: torch.nn.Module, given: Given, dynamic_shapes: Any) -> ExportedProgram:
    """Export with these dynamic shapes.

    Raises:
        CaseError: as :func:`export`.
    """
    args, kwargs = arguments(given)
    try:
        return torch.export.export(
            module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False
        )
    except Exception as error:
        if found := _CONSTANT.search(str(error)):
            name, dim, size = found.groups()
            said = f"dimension {dim} of {name} is a constant to it, {size}"
        else:
            frame = model_frame(error)
            said = f"{describe(error, 400)}{f', at {frame}' if frame else ''}"
        raise CaseError(f"the model does not export with such dimensions: {said}") from error


def refusal_of(program: ExportedProgram, given: Given) -> str | None:
    """Why an exported program does not take these inputs, or None."""
    args, kwargs = arguments(given)
    try:
        with torch.no_grad():
            program.module()(*args, **kwargs)
    except Exception as error:
        return describe(error, 300)
    return None


def _what_is(one: Varying, value: Any, parameters: dict[str, Any]) -> str:
    if isinstance(value, torch.Tensor):
        return f"{one.name} has {value.dim()} dimensions, counted from 0"
    if one.name in parameters:
        return f"{one.name} is a {type(value).__name__}; dimensions are of tensors"
    return f"the model has no input {one.name!r}; it has {', '.join(parameters)}"


def _check_size(one: Varying, size: int) -> None:
    low, high = one.low or 0, size if one.high is None else one.high
    if not low <= size <= high:
        raise UsageError(f"--dynamic {one}={low}..{high}: the inputs have size {size} there")
    if size < 2:
        raise UsageError(
            f"--dynamic {one}: the inputs have size {size} there, which torch.export takes for a "
            f"constant; give inputs of size 2 or more"
        )
