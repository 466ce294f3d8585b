"""``.pt2`` files: an exported program as a module, with its inputs and how they may vary."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim, ExportedProgram

from harness.errors import UsageError, describe
from harness.model.case import Given, arguments, named
from harness.pipeline.dynamic_sizes import symbols
from harness.pipeline.dynamic_sizes.symbols import Range
from harness.vendors.torch import TreeSpec, tree_unflatten


def read(path: Path) -> ExportedProgram:
    """Load what ``torch.export.save`` wrote.

    Raises:
        UsageError: there is no such file, or it is none of that kind.
    """
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    try:
        return torch.export.load(path)
    except Exception as error:  # a zip file, a tensor or a schema that does not read
        raise UsageError(
            f"{path} is cut short, or no program of torch.export.save: {describe(error, 200)}"
        ) from error


def as_module(program: ExportedProgram) -> torch.fx.GraphModule:
    """The program as a module; its mode is that in which it was exported."""
    # Guards are call_module nodes, which a second export would keep.
    module: torch.fx.GraphModule = program.module(check_guards=False)
    return module


def example_inputs(program: ExportedProgram) -> Given | None:
    """The inputs that it was exported with, where it has kept them."""
    example = program.example_inputs
    return None if example is None else named(*example)


def dynamic_shapes(program: ExportedProgram, *, is_exact: bool = True) -> Any:
    """The program's own range constraints, as ``torch.export.export`` takes them for its module;
    None for a program of static shapes.

    Args:
        program: an exported program.
        is_exact: name the dimensions, which keeps a minimum of 1 and what sizes have to do with
            each other, or fails. Without, torch.export raises such a minimum to 2.
    """
    leaves = named_dims(program, {}) if is_exact else _hints(program)
    if not any(leaves):
        return None
    args, kwargs = tree_unflatten(leaves, _in_spec(program))
    by_position = dict(zip(_parameters(program), args, strict=False))
    return {**by_position, **kwargs} if kwargs else tuple(args)


def named_dims(
    program: ExportedProgram, ranges: Mapping[Any, Range]
) -> list[dict[int, Any] | None]:
    """The dimensions of each flat input that vary, with a ``Dim`` for each symbol.

    Args:
        program: an exported program; its own ranges are taken where there is no other.
        ranges: ranges of symbols.
    """
    spans = {**symbols.ranges(program), **ranges}
    dims = {
        symbol: Dim(f"size_{number}", min=low, max=high)
        for number, (symbol, (low, high)) in enumerate(spans.items())
    }
    leaves: list[dict[int, Any] | None] = [None] * len(symbols.input_shapes(program))
    for number, dim, size in symbols.varying(program):
        hint: Any = Dim.AUTO
        if (linear := symbols.as_linear(size)) is not None:
            symbol, factor, offset = linear
            hint = dims[symbol]
            hint = factor * hint if factor != 1 else hint
            hint = hint + offset if offset else hint
        leaves[number] = {**(leaves[number] or {}), dim: hint}
    return leaves


def _hints(program: ExportedProgram) -> list[dict[int, Any] | None]:
    leaves: list[dict[int, Any] | None] = [None] * len(symbols.input_shapes(program))
    for number, dim, size in symbols.varying(program):
        low, high = symbols.extent(program, size)
        leaves[number] = {**(leaves[number] or {}), dim: Dim.DYNAMIC(min=low, max=high)}
    return leaves


def arranged(program: ExportedProgram, given: Given) -> Given:
    """The inputs as the program takes them: what it was exported with by position it refuses by
    name, where a module takes both."""
    args, kwargs = arguments(given)
    spec = _in_spec(program)
    positions = len(tree_unflatten(list(range(spec.num_leaves)), spec)[0])
    names = _parameters(program)[len(args) : positions]
    if not all(name in kwargs for name in names):
        return given
    return named((*args, *(kwargs.pop(name) for name in names)), kwargs)


def _parameters(program: ExportedProgram) -> list[str]:
    return list(inspect.signature(program.module(check_guards=False).forward).parameters)


def _in_spec(program: ExportedProgram) -> TreeSpec:
    spec: TreeSpec | None = program.call_spec.in_spec
    assert spec is not None  # of a whole program
    return spec
