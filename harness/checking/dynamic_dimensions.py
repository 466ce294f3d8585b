"""Export a model with dynamic dimensions: requested, found, or declared by a ``.pt2`` program."""

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
from harness.model.case import CallInputs, arguments
from harness.pipeline.dynamic_sizes import symbols
from harness.pipeline.dynamic_sizes.symbols import Range
from harness.pipeline.explain.model_frames import find_model_frame
from harness.vendors.torch import tree_flatten

AUTO = "auto"
"""Requests every dimension that can be dynamic in the model."""

# The error of torch.export about a dimension that is constant in the model.
_CONSTANT = re.compile(
    r"L\['(\w+)'\][^\n]*size\(\)\[(\d+)\] as dynamic but [^\n]* a constant \((\d+)\)"
)
_SPELLING = re.compile(r"(\w+):(\d+)(?:=(\d+)\.\.(\d+))?")


@dataclass(frozen=True)
class RequestedDimension:
    """One dimension of one input that is requested to be dynamic.

    Attributes:
        name: parameter of the module's ``forward``.
        dim: number of the dimension.
        low: minimum size; None to let export choose it.
        high: maximum size; None for twice the example's size.
    """

    name: str
    dim: int
    low: int | None = None
    high: int | None = None

    @classmethod
    def parse(cls, text: str) -> RequestedDimension:
        """Read ``NAME:DIM`` or ``NAME:DIM=MIN..MAX``.

        Raises:
            UsageError: the spelling is wrong, or the range has no two sizes.
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
            raise UsageError(f"--dynamic {text!r}: {low}..{high} needs at least two sizes")
        return cls(name, int(dim), int(low), int(high))

    def __str__(self) -> str:
        return f"{self.name}:{self.dim}"


def parse_dynamic(texts: Sequence[str]) -> list[RequestedDimension] | str | None:
    """Parse the values of ``--dynamic``: dimensions, :data:`AUTO`, or None.

    Raises:
        UsageError: a spelling is wrong, or ``auto`` is combined with dimensions.
    """
    if AUTO in texts:
        if set(texts) != {AUTO}:
            raise UsageError(f"--dynamic {AUTO} includes all dimensions; remove the others")
        return AUTO
    return [RequestedDimension.parse(text) for text in texts] or None


@dataclass(frozen=True)
class DynamicProgram:
    """A program that was exported with dynamic dimensions.

    Attributes:
        program: the program.
        shapes: its ``dynamic_shapes`` for ``torch.export.export``.
        notes: differences between its ranges and the requested ones, a line each.
    """

    program: ExportedProgram
    shapes: Any
    notes: tuple[str, ...] = ()


def export_dynamic(
    module: torch.nn.Module, given: CallInputs, requested: Sequence[RequestedDimension] | str
) -> DynamicProgram:
    """Export a model with the requested dynamic dimensions.

    Dimensions of other inputs that must have the same size become dynamic too.

    Raises:
        UsageError: a name or dimension does not exist, or an input is not a tensor.
        CaseError: the model does not export, or a requested dimension is constant in the model.
    """
    if isinstance(requested, str):
        found = _make_shapes(module, given, [], follow=True)
        return DynamicProgram(export_with(module, given, found), found)
    try:
        found = _make_shapes(module, given, requested, follow=False)
        program = export_with(module, given, found)
    except CaseError:
        found = _make_shapes(module, given, requested, follow=True)
        program = export_with(module, given, found)
    args, kwargs = arguments(given)
    parameters = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    tensors = [(one, parameters[one.name]) for one in requested]
    # Dim.DYNAMIC and Dim.AUTO raise a minimum of 1 to 2; a named Dim does not.
    for ranges in _choose_ranges(program, given, tensors):
        dims = exported_programs.named_dims(program, ranges)
        collection: Any = ShapesCollection()  # type: ignore[no-untyped-call]  # torch's is untyped
        for leaf, hints in zip(tree_flatten((args, kwargs))[0], dims, strict=True):
            if hints:
                collection[leaf] = hints
        named = collection.dynamic_shapes(module, args, kwargs)
        try:
            program, found = export_with(module, given, named), named
            break
        except CaseError:  # not possible in the model; use the ranges found before
            continue
    return DynamicProgram(program, found, tuple(_describe_differences(program, given, tensors)))


def export_again(
    module: torch.nn.Module, given: CallInputs, handed: ExportedProgram
) -> DynamicProgram:
    """Export the module of a ``.pt2`` program again, with the ranges that it declares.

    Raises:
        CaseError: the module does not export again.
    """
    shapes = exported_programs.dynamic_shapes(handed)
    try:
        program = export_with(module, given, shapes)
    except CaseError:
        shapes = exported_programs.dynamic_shapes(handed, is_exact=False)
        program = export_with(module, given, shapes)
    names, spans = symbols.input_names(handed), _ranges(program)
    return DynamicProgram(
        program,
        shapes,
        tuple(
            f"{names[number]}:{dim}: the program declares {_format_range(declared)}; torch.export "
            f"makes it {_format_range(spans.get((number, dim)))} when the program is exported again"
            for (number, dim), declared in _ranges(handed).items()
            if spans.get((number, dim)) != declared
        ),
    )


def _choose_ranges(
    program: ExportedProgram,
    given: CallInputs,
    requested: Sequence[tuple[RequestedDimension, torch.Tensor]],
) -> list[dict[Any, Range]]:
    """Ranges of symbols to try if the program's ranges differ from the requested ones.

    They are the requested ranges, then only the requested minimums.
    """
    found = symbols.symbol_ranges(program)
    both: dict[Any, Range] = {}
    least: dict[Any, Range] = {}
    for one, size in _find_requested_sizes(program, given, requested):
        linear = symbols.as_linear_expression(size)
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


def _find_requested_sizes(
    program: ExportedProgram,
    given: CallInputs,
    requested: Sequence[tuple[RequestedDimension, torch.Tensor]],
) -> Iterator[tuple[RequestedDimension, torch.SymInt]]:
    """Each dimension with a requested range, and its size."""
    leaves = tree_flatten(arguments(given))[0]
    for number, dim, size in symbols.find_dynamic_dimensions(program):
        for one, tensor in requested:
            if one.low is not None and one.dim == dim and tensor is leaves[number]:
                yield one, size


def _describe_differences(
    program: ExportedProgram,
    given: CallInputs,
    requested: Sequence[tuple[RequestedDimension, torch.Tensor]],
) -> Iterator[str]:
    for one, size in _find_requested_sizes(program, given, requested):
        span = symbols.declared_range(program, size)
        if span != (one.low, one.high):
            yield (
                f"{one}: {one.low} to {one.high} was asked for; the model or torch.export makes it "
                f"{_format_range(span)}"
            )


def _ranges(program: ExportedProgram) -> dict[tuple[int, int], Range]:
    return {
        (number, dim): symbols.declared_range(program, size)
        for number, dim, size in symbols.find_dynamic_dimensions(program)
    }


def _format_range(span: Range | None) -> str:
    if span is None:
        return "a constant"
    low, high = span
    return f"{low} and more" if high is None else f"{low} to {high}"


def _make_shapes(
    module: torch.nn.Module,
    given: CallInputs,
    requested: Sequence[RequestedDimension],
    *,
    follow: bool,
) -> Any:
    """The ``dynamic_shapes`` of the requested dimensions.

    With ``follow``, also other dimensions of the same sizes; all dimensions if none is requested.
    """
    args, kwargs = arguments(given)
    parameters = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    named: dict[int, dict[int, Any]] = {}
    sizes: set[int] = set()
    for one in requested:
        tensor = parameters.get(one.name)
        if not isinstance(tensor, torch.Tensor) or one.dim >= tensor.dim():
            raise UsageError(f"--dynamic {one}: {_describe_input(one, tensor, parameters)}")
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
                    dim: Dim.AUTO(max=2 * size) if not requested else Dim.AUTO
                    for dim, size in enumerate(leaf.shape)
                    if size > 1 and (not requested or size in sizes)
                }
            collection[leaf] = hints
    return collection.dynamic_shapes(module, args, kwargs)


def export_with(module: torch.nn.Module, given: CallInputs, dynamic_shapes: Any) -> ExportedProgram:
    """Export with dynamic shapes.

    Raises:
        CaseError: the model does not export with them.
    """
    args, kwargs = arguments(given)
    try:
        return torch.export.export(
            module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False
        )
    except Exception as error:
        if found := _CONSTANT.search(str(error)):
            name, dim, size = found.groups()
            why = f"dimension {dim} of {name} has the constant size {size} in the model"
        else:
            frame = find_model_frame(error)
            why = f"{describe(error, 400)}{f', at {frame}' if frame else ''}"
        raise CaseError(
            f"the model does not export with these dynamic dimensions: {why}"
        ) from error


def explain_rejected_inputs(program: ExportedProgram, given: CallInputs) -> str | None:
    """Why an exported program rejects these inputs; None if it accepts them."""
    args, kwargs = arguments(given)
    try:
        with torch.no_grad():
            program.module()(*args, **kwargs)
    except Exception as error:
        return describe(error, 300)
    return None


def _describe_input(one: RequestedDimension, value: Any, parameters: dict[str, Any]) -> str:
    if isinstance(value, torch.Tensor):
        return f"{one.name} has {value.dim()} dimensions, counted from 0"
    if one.name in parameters:
        return f"{one.name} is a {type(value).__name__}; only tensors have dimensions"
    return f"the model has no input {one.name!r}; it has {', '.join(parameters)}"


def _check_size(one: RequestedDimension, size: int) -> None:
    low, high = one.low or 0, size if one.high is None else one.high
    if not low <= size <= high:
        raise UsageError(f"--dynamic {one}={low}..{high}: the inputs have size {size} there")
    if size < 2:
        raise UsageError(
            f"--dynamic {one}: the inputs have size {size} there, which torch.export takes for a "
            f"constant; give inputs of size 2 or more"
        )
