"""The sizes of an exported program's inputs: which vary, between what, and which together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, TensorArgument

Shape = tuple["int | torch.SymInt", ...]


def input_shapes(program: ExportedProgram) -> list[Shape | None]:
    """The shape of each user input, in the order of the leaves of (args, kwargs).

    None for what is no tensor. A size that may vary is a ``SymInt``.
    """
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    shapes: list[Shape | None] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            value = values.get(spec.arg.name) if isinstance(spec.arg, TensorArgument) else None
            if isinstance(value, torch.Tensor):
                shapes.append(tuple(map(_settled, value.shape)))
            else:
                shapes.append(None)
    return shapes


def _settled(size: int | torch.SymInt) -> int | torch.SymInt:
    """A size that was asked to vary and turned out to be a constant is still a ``SymInt``."""
    is_symbol = isinstance(size, torch.SymInt) and not size.node.expr.is_number
    return size if is_symbol else int(size)


def input_names(program: ExportedProgram) -> list[str]:
    """What the user inputs are called: parameters of ``forward``, with what leads to a leaf."""
    return [
        spec.arg.name
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.USER_INPUT
    ]


def extent(program: ExportedProgram, size: torch.SymInt) -> tuple[int, int | None]:
    """The least and the largest value of a size that varies; None for no upper bound."""
    from harness.private.torch import bound_sympy, int_oo

    found = bound_sympy(size.node.expr, program.range_constraints)
    return int(found.lower), None if found.upper is int_oo else int(found.upper)


def free_symbols(program: ExportedProgram) -> dict[Any, torch.SymInt]:
    """The sympy symbols that sizes of inputs are made of, each with a size that it is alone."""
    found: dict[Any, torch.SymInt] = {}
    for shape in input_shapes(program):
        for size in shape or ():
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                found.setdefault(size.node.expr, size)
    return found


def value_of(size: int | torch.SymInt, values: Mapping[Any, int]) -> int:
    """A size where the symbols have these values."""
    if isinstance(size, int):
        return size
    return int(size.node.expr.subs(dict(values)))
