"""The sizes of an exported program's inputs: which vary, in which ranges, and which together."""

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
"""What symbols (of sympy) stand for."""

Range = tuple[int, "int | None"]
"""The least and the largest value; None for no upper bound."""


def input_shapes(program: ExportedProgram) -> list[Shape | None]:
    """The shape of each user input, in the order of the leaves of (args, kwargs).

    None for inputs that are no tensors. A size that may vary is a ``SymInt``.
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
    """The names of the user inputs: parameters of ``forward``, with the path to a leaf."""
    return [
        spec.arg.name
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.USER_INPUT
    ]


def varying(program: ExportedProgram) -> Iterator[tuple[int, int, torch.SymInt]]:
    """Each dynamic dimension: the number of the input, the number of the dimension, its size."""
    for number, shape in enumerate(input_shapes(program)):
        for dim, size in enumerate(shape or ()):
            if isinstance(size, torch.SymInt):
                yield number, dim, size


def extent(program: ExportedProgram, size: torch.SymInt) -> Range:
    """The range that a program declares for a size."""
    declared = program.range_constraints
    # torch.export keeps a range for each expression, such as 2*s, that is a size of an input. That
    # of s alone may be narrower: torch.export raises minimums of 1 to 2 there.
    found = declared.get(size.node.expr) or bound_sympy(size.node.expr, declared)
    return int(found.lower), None if found.upper in (int_oo, math.inf) else int(found.upper)


def ranges(program: ExportedProgram) -> dict[Any, Range]:
    """The range of each symbol that sizes of inputs are made of, such that all these sizes are in
    their own ranges.

    Symbols that no size determines by itself (a product of two) are left out.
    """
    found: dict[Any, Range] = {}
    for _, _, size in varying(program):
        if (linear := as_linear(size)) is None:
            continue
        symbol, factor, offset = linear
        low, high = extent(program, size)
        least = -((offset - low) // factor)  # rounded up
        most = None if high is None else (high - offset) // factor
        if symbol in found:
            before_low, before_high = found[symbol]
            least = max(least, before_low)
            highs = [each for each in (most, before_high) if each is not None]
            most = min(highs, default=None)
        found[symbol] = least, most
    return found


def as_linear(size: torch.SymInt) -> tuple[Any, int, int] | None:
    """A size as (symbol, factor, offset), ``factor * symbol + offset``; None for any other."""
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


def values_in(program: ExportedProgram, leaves: Sequence[Any]) -> Values | None:
    """What the symbols stand for in the inputs of one call.

    Args:
        program: an exported program.
        leaves: the inputs, flat, in the program's order.

    Returns:
        None where the inputs do not have the program's shapes.
    """
    shapes = input_shapes(program)
    if len(shapes) != len(leaves):
        return None
    found: Values = {}
    for number, dim, size in varying(program):
        leaf = leaves[number]
        if not isinstance(leaf, torch.Tensor) or dim >= leaf.dim():
            return None
        if (linear := as_linear(size)) is not None:
            symbol, factor, offset = linear
            found.setdefault(symbol, (leaf.shape[dim] - offset) // factor)
    for number, dim, size in varying(program):
        if value_of(size, found) != leaves[number].shape[dim]:
            return None
    return found


def value_of(size: int | torch.SymInt, values: Mapping[Any, int]) -> int | None:
    """A size where the symbols have these values; None where it depends on others, too."""
    if isinstance(size, int):
        return size
    value = size.node.expr.subs(dict(values))
    return int(value) if value.is_Integer else None


class Volume:
    """How many elements the results of all nodes of a program have together, for given sizes."""

    def __init__(self, program: ExportedProgram) -> None:
        self._shapes: Counter[tuple[Any, ...]] = Counter()
        for node in program.graph.nodes:
            for leaf in tree_leaves(node.meta.get("val")) if node.op == "call_function" else ():
                if isinstance(leaf, torch.Tensor):
                    self._shapes[tuple(map(_plain, leaf.shape))] += 1

    def __call__(self, values: Values) -> int:
        """The number of elements; tensors whose sizes follow from data are not counted."""
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
