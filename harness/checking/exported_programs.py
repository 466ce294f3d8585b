"""Read ``.pt2`` files: the program as a module, its example inputs and dynamic shapes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim, ExportedProgram

from harness.errors import UsageError, describe
from harness.model.case import CallInputs, arguments, make_call
from harness.pipeline.dynamic_sizes import symbols
from harness.pipeline.dynamic_sizes.symbols import Range
from harness.vendors.torch import TreeSpec, tree_unflatten


def read_program(path: Path) -> ExportedProgram:
    """Load a program that ``torch.export.save`` wrote.

    Raises:
        UsageError: the file does not exist, or is not a complete program of ``torch.export.save``.
    """
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    try:
        return torch.export.load(path)
    except Exception as error:  # a damaged zip file, tensor or schema
        raise UsageError(
            f"{path} is not a complete program of torch.export.save: {describe(error, 200)}"
        ) from error


def as_module(program: ExportedProgram) -> torch.fx.GraphModule:
    """The program as a module, in the mode in which it was exported."""
    # Guards are call_module nodes, which a second export would preserve.
    module: torch.fx.GraphModule = program.module(check_guards=False)
    return module


def example_inputs(program: ExportedProgram) -> CallInputs | None:
    """The inputs that the program was exported with; None if it does not have them."""
    example = program.example_inputs
    return None if example is None else make_call(*example)


def dynamic_shapes(program: ExportedProgram, *, is_exact: bool = True) -> Any:
    """The program's range constraints as the ``dynamic_shapes`` of ``torch.export.export``.

    Args:
        program: an exported program.
        is_exact: use named dimensions. Export then preserves minimums of 1 and relations between
            sizes, or fails. Otherwise torch.export raises a minimum of 1 to 2.

    Returns:
        None for a program of static shapes.
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
    """The dynamic dimensions of each flat input, with a ``Dim`` for each symbol.

    Args:
        program: an exported program.
        ranges: ranges of symbols, instead of the program's own.
    """
    spans = {**symbols.symbol_ranges(program), **ranges}
    dims = {
        symbol: Dim(f"size_{number}", min=low, max=high)
        for number, (symbol, (low, high)) in enumerate(spans.items())
    }
    leaves: list[dict[int, Any] | None] = [None] * len(symbols.input_shapes(program))
    for number, dim, size in symbols.find_dynamic_dimensions(program):
        hint: Any = Dim.AUTO
        if (linear := symbols.as_linear_expression(size)) is not None:
            symbol, factor, offset = linear
            hint = dims[symbol]
            hint = factor * hint if factor != 1 else hint
            hint = hint + offset if offset else hint
        leaves[number] = {**(leaves[number] or {}), dim: hint}
    return leaves


def _hints(program: ExportedProgram) -> list[dict[int, Any] | None]:
    leaves: list[dict[int, Any] | None] = [None] * len(symbols.input_shapes(program))
    for number, dim, size in symbols.find_dynamic_dimensions(program):
        low, high = symbols.declared_range(program, size)
        leaves[number] = {**(leaves[number] or {}), dim: Dim.DYNAMIC(min=low, max=high)}
    return leaves


def arrange_inputs(program: ExportedProgram, given: CallInputs) -> CallInputs:
    """Pass inputs by position where the program was exported with positional inputs.

    A program rejects such inputs by name, where a module accepts both.
    """
    args, kwargs = arguments(given)
    spec = _in_spec(program)
    positions = len(tree_unflatten(list(range(spec.num_leaves)), spec)[0])
    names = _parameters(program)[len(args) : positions]
    if not all(name in kwargs for name in names):
        return given
    return make_call((*args, *(kwargs.pop(name) for name in names)), kwargs)


def _parameters(program: ExportedProgram) -> list[str]:
    return list(inspect.signature(program.module(check_guards=False).forward).parameters)


def _in_spec(program: ExportedProgram) -> TreeSpec:
    spec: TreeSpec | None = program.call_spec.in_spec
    assert spec is not None  # torch.export always sets it
    return spec
