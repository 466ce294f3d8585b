"""Dynamic dimensions of an exported program's inputs, their ranges and symbols."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, TensorArgument

from harness.vendors.torch import bound_sympy, int_oo, tree_leaves

Shape = tuple["int | torch.SymInt", ...]

Values = dict[Any, int]
"""Values of symbols of sympy."""

Range = tuple[int, "int | None"]
"""The minimum and the maximum; None for no maximum."""


def input_shapes(program: ExportedProgram) -> list[Shape | None]:
    """The shape of each user input, in the order of the leaves of (args, kwargs).

    None for inputs that are not tensors. A dynamic size is a ``SymInt``.
    """
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    shapes: list[Shape | None] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            value = values.get(spec.arg.name) if isinstance(spec.arg, TensorArgument) else None
            if isinstance(value, torch.Tensor):
                shapes.append(tuple(map(_resolve_constant, value.shape)))
            else:
                shapes.append(None)
    return shapes


def _resolve_constant(size: int | torch.SymInt) -> int | torch.SymInt:
    """An int for a ``SymInt`` that export found to be constant."""
    is_symbol = isinstance(size, torch.SymInt) and not size.node.expr.is_number
    return size if is_symbol else int(size)


def input_names(program: ExportedProgram) -> list[str]:
    """The names of the user inputs: parameters of ``forward``, with the path to a leaf."""
    return [
        spec.arg.name
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.USER_INPUT
    ]


def find_dynamic_dimensions(program: ExportedProgram) -> Iterator[tuple[int, int, torch.SymInt]]:
    """Each dynamic dimension: the number of the input, the number of the dimension, its size."""
    for number, shape in enumerate(input_shapes(program)):
        for dim, size in enumerate(shape or ()):
            if isinstance(size, torch.SymInt):
                yield number, dim, size


def declared_range(program: ExportedProgram, size: torch.SymInt) -> Range:
    """The range that a program declares for a size."""
    declared = program.range_constraints
    # torch.export stores a range for each expression that is an input's size, such as 2*s. The
    # range of s alone may be narrower, because torch.export raises minimums of 1 to 2 there.
    found = declared.get(size.node.expr) or bound_sympy(size.node.expr, declared)
    return int(found.lower), None if found.upper in (int_oo, math.inf) else int(found.upper)


def symbol_ranges(program: ExportedProgram) -> dict[Any, Range]:
    """The range of each symbol for which all input sizes are within their declared ranges.

    Symbols that occur only in sizes of several symbols, such as a product, are omitted.
    """
    found: dict[Any, Range] = {}
    for _, _, size in find_dynamic_dimensions(program):
        if (linear := as_linear_expression(size)) is None:
            continue
        symbol, factor, offset = linear
        low, high = declared_range(program, size)
        least = -((offset - low) // factor)  # rounded up
        most = None if high is None else (high - offset) // factor
        if symbol in found:
            before_low, before_high = found[symbol]
            least = max(least, before_low)
            highs = [each for each in (most, before_high) if each is not None]
            most = min(highs, default=None)
        found[symbol] = least, most
    return found


def as_linear_expression(size: torch.SymInt) -> tuple[Any, int, int] | None:
    """A size ``factor * symbol + offset`` as (symbol, factor, offset); None for other sizes."""
    expression = size.node.expr
    if len(expression.free_symbols) != 1:
        return None
    (symbol,) = expression.free_symbols
    offset, at_one = expression.subs(symbol, 0), expression.subs(symbol, 1)
    if not (offset.is_Integer and at_one.is_Integer and at_one > offset):
        return None
    factor = at_one - offset
    if (expression - (factor * symbol + offset)).expand() != 0:
        return None
    return symbol, int(factor), int(offset)


def solve_symbols(program: ExportedProgram, leaves: Sequence[Any]) -> Values | None:
    """The values of the symbols in the inputs of one call.

    Args:
        program: an exported program.
        leaves: the inputs, flat, in the program's order.

    Returns:
        None if the inputs do not have the program's shapes.
    """
    shapes = input_shapes(program)
    if len(shapes) != len(leaves):
        return None
    found: Values = {}
    for number, dim, size in find_dynamic_dimensions(program):
        leaf = leaves[number]
        if not isinstance(leaf, torch.Tensor) or dim >= leaf.dim():
            return None
        if (linear := as_linear_expression(size)) is not None:
            symbol, factor, offset = linear
            found.setdefault(symbol, (leaf.shape[dim] - offset) // factor)
    for number, dim, size in find_dynamic_dimensions(program):
        if evaluate_size(size, found) != leaves[number].shape[dim]:
            return None
    return found


def evaluate_size(size: int | torch.SymInt, values: Mapping[Any, int]) -> int | None:
    """A size for these values of symbols; None if it depends on other symbols too."""
    if isinstance(size, int):
        return size
    value = size.node.expr.subs(dict(values))
    return int(value) if value.is_Integer else None


class ElementCount:
    """Counts the elements of the results of all nodes of a program for given sizes."""

    def __init__(self, program: ExportedProgram) -> None:
        self._shapes: Counter[tuple[Any, ...]] = Counter()
        for node in program.graph.nodes:
            for leaf in tree_leaves(node.meta.get("val")) if node.op == "call_function" else ():
                if isinstance(leaf, torch.Tensor):
                    self._shapes[tuple(map(_plain, leaf.shape))] += 1

    def __call__(self, values: Values) -> int:
        """The number of elements, without tensors of data-dependent sizes."""
        return sum(
            count * number
            for shape, number in self._shapes.items()
            if (count := _elements(shape, values)) is not None
        )


def _plain(size: int | torch.SymInt) -> Any:
    return size.node.expr if isinstance(size, torch.SymInt) else size


def _elements(shape: tuple[Any, ...], values: Values) -> int | None:
    sizes = [size if isinstance(size, int) else size.subs(values) for size in shape]
    if not all(isinstance(size, int) or size.is_Integer for size in sizes):
        return None
    return math.prod(map(int, sizes))
