"""Add calls at the ends of a program's dynamic ranges that its case does not cover.

The program is executed at the minimum, at the maximum (without a maximum, at twice and at ten times
the example's size) and in between. Several dynamic dimensions are all at their minimum, all at
their maximum, then mixed; not every combination is executed. Sizes in between and mixtures are only
added if the case has no further calls of its own. The inputs repeat or cut the values of the first
call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram

from harness.errors import describe
from harness.model.case import CallInputs, arguments, make_call
from harness.pipeline.dynamic_sizes import symbols
from harness.pipeline.dynamic_sizes.symbols import ElementCount, Values
from harness.record.program_data import Dimension
from harness.vendors.torch import tree_unflatten

ELEMENTS = 2**22
"""Sizes are executed up to this number of elements in the results of all nodes.

The reference keeps them in float64 for about thirty runs."""

TWICE = 2
"""Sizes are also executed up to this multiple of the example's number of elements."""

_FAR = 10
_NAMED = 3
# Skip at most this many sizes that guards exclude; guards may require multiples of a number.
_STEPS = 128

Run = Callable[[Sequence[CallInputs]], object]
"""Runs the module for a sequence of calls; raises an error if it rejects one."""


@dataclass(frozen=True)
class ExecutedSizes:
    """The sizes that a program is executed at.

    Attributes:
        calls: calls to add to the case's calls.
        dimensions: the dynamic dimensions, with their size in each call: the case's calls first,
            then the added ones.
        untried: sizes that are not executed, and why, a line each.
    """

    calls: tuple[CallInputs, ...] = ()
    dimensions: list[Dimension] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)

    def describe_call(self, call: int) -> str:
        """The sizes of one call that differ from the first call, with which it was exported.

        For example ``x:0 = 5 (declared: 1 to 16; exported with 4)``; empty if none differ.
        """
        # A program with state repeats the last call.
        sizes = [(one, one.sizes[min(call, len(one.sizes) - 1)]) for one in self.dimensions]
        other = [(one, size) for one, size in sizes if size != one.sizes[0]]
        return ", ".join(
            f"{one} = {size} (declared: {one.span}; exported with {one.sizes[0]})"
            for one, size in other[:_NAMED]
        ) + (f" and {len(other) - _NAMED} more" if len(other) > _NAMED else "")


def choose_sizes(program: ExportedProgram, calls: Sequence[CallInputs], run: Run) -> ExecutedSizes:
    """Choose sizes that a program's calls do not cover.

    Args:
        program: an exported program.
        calls: its calls so far; the first has the example's sizes.
        run: runs the module that the program was exported from.
    """
    if not any(True for _ in symbols.find_dynamic_dimensions(program)):
        return ExecutedSizes()
    return _SizeChooser(program, calls, run).sizes()


class _SizeChooser:
    def __init__(self, program: ExportedProgram, calls: Sequence[CallInputs], run: Run) -> None:
        self._program = program
        self._calls = list(calls)
        self._run = run
        self._ranges = symbols.symbol_ranges(program)
        self._untried: list[str] = []
        self._element_count = ElementCount(program)
        self._guards = make_guard_check(program)
        self._spec = program.call_spec.in_spec
        self._given = [self._leaves(call) for call in self._calls]
        self._seen = [symbols.solve_symbols(program, leaves) for leaves in self._given]
        self._shapes = symbols.input_shapes(program)
        self._names = symbols.input_names(program)

    def sizes(self) -> ExecutedSizes:
        example = self._seen[0]
        added: list[CallInputs] = []
        if example is None or not all(example.values()):
            self._untried.append("no other size: single dimensions do not determine all sizes")
        else:
            self._max_elements = max(ELEMENTS, TWICE * self._element_count(example))
            wanted = [values for values in self._choose_values(example) if values not in self._seen]
            added = self._keep_accepted([self._resize(values) for values in wanted])
        dimensions = self._dimensions([*self._calls, *added])
        return ExecutedSizes(tuple(added), dimensions, list(dict.fromkeys(self._untried)))

    def _choose_values(self, example: Values) -> list[Values]:
        """Values of the symbols to execute at."""
        ends = {symbol: (max(low, 1), high) for symbol, (low, high) in self._ranges.items()}
        low = {
            symbol: self._nearest_allowed(example, symbol, least)
            for symbol, (least, _) in ends.items()
        }
        high = {
            symbol: self._choose_maximum(example, symbol, most)
            for symbol, (_, most) in ends.items()
        }
        found: list[Values] = [low]
        is_reached = self._is_small(high)
        if is_reached:
            found.append(high)
        elif len(high) == 1:
            found.append(self._shrink_to_limit(example, high))
        if any(most is None for _, most in ends.values()):
            far = {s: high[s] if most else _FAR * example[s] for s, (_, most) in ends.items()}
            far = {symbol: self._nearest_allowed(example, symbol, far[symbol]) for symbol in far}
            if self._is_small(far):
                found.append(far)
        # Further calls of the case replace sizes in between and mixtures.
        is_alone = len(self._calls) == 1
        if len(low) > 1 and (is_alone or not is_reached):
            found += filter(self._is_small, _mix(low, high))
        if is_alone and self._is_small(middle := self._choose_middle(example, low, high)):
            found.append(middle)
        unique = [values for at, values in enumerate(found) if values not in found[:at]]
        return [values for values in unique if values != example and self._is_allowed(values)]

    def _choose_middle(self, example: Values, low: Values, high: Values) -> Values:
        """The example's sizes, or the middle of the range if the example is at an end."""
        return {
            symbol: example[symbol]
            if low[symbol] < example[symbol] < high[symbol]
            else self._nearest_allowed(
                example, symbol, (low[symbol] + high[symbol]) // 2, is_end=False
            )
            for symbol in low
        }

    def _choose_maximum(self, example: Values, symbol: Any, most: int | None) -> int:
        wanted = 2 * example[symbol] if most is None else most
        return self._nearest_allowed(example, symbol, wanted)

    def _shrink_to_limit(self, example: Values, values: Values) -> Values:
        """Sizes between too large values and the example that are small enough."""
        found = values
        while self._element_count(found) > self._max_elements:
            found = {
                symbol: self._nearest_allowed(
                    example, symbol, (found[symbol] + example[symbol]) // 2
                )
                for symbol in found
            }
        return found

    def _nearest_allowed(
        self, example: Values, symbol: Any, wanted: int, *, is_end: bool = True
    ) -> int:
        """The size nearest to the wanted one, towards the example's, that guards accept.

        Args:
            example: values of all symbols in the example.
            symbol: the symbol to choose a value for.
            wanted: its wanted value.
            is_end: the value is an end of the range; report it if guards exclude it.
        """
        step = 1 if wanted < example[symbol] else -1
        for value in range(wanted, example[symbol], step)[:_STEPS]:
            values = {**example, symbol: value}
            refusal = self._find_guard(values)
            if refusal is None:
                return value
            if is_end and value == wanted:
                self._note_untried({symbol: value}, f"the program's guards exclude it: {refusal}")
        return example[symbol]

    def _is_allowed(self, values: Values) -> bool:
        refusal = self._find_guard(values)
        if refusal is not None:
            self._note_untried(values, f"the program's guards exclude it: {refusal}")
        return refusal is None

    def _find_guard(self, values: Values) -> str | None:
        """The guard that excludes these sizes, or None."""
        leaves = [
            leaf if shape is None else torch.empty(shape, dtype=leaf.dtype, device="meta")
            for leaf, shape in zip(self._given[0], self._shapes_for(values), strict=True)
        ]
        return self._guards(leaves)

    def _is_small(self, values: Values) -> bool:
        elements = self._element_count(values)
        if values in self._seen:
            return True
        if elements > self._max_elements:
            self._note_untried(
                values,
                f"its tensors would have {elements:.3g} elements; "
                f"the limit is {self._max_elements:.3g}",
            )
        return elements <= self._max_elements

    def _keep_accepted(self, wanted: list[CallInputs]) -> list[CallInputs]:
        """The calls that the module accepts; the program need not accept more than its module."""
        try:
            self._run([*self._calls, *wanted])
            return wanted
        except Exception:  # a module may raise any error
            accepted: list[CallInputs] = []
        for call in wanted:
            try:
                self._run([*self._calls, *accepted, call])
                accepted.append(call)
            except Exception as error:
                values = symbols.solve_symbols(self._program, self._leaves(call)) or {}
                why = describe(error, 200)
                self._note_untried(
                    values, f"it is in the range, and the module itself raises {why}"
                )
        return accepted

    def _note_untried(self, values: Values, why: str) -> None:
        named_sizes = ", ".join(
            f"{self._names[number]}:{dim} = {value}"
            for number, dim, size in symbols.find_dynamic_dimensions(self._program)
            if (value := symbols.evaluate_size(size, values)) is not None
        )
        self._untried.append(f"{named_sizes} was not executed: {why}")

    def _shapes_for(self, values: Values) -> Iterator[tuple[int, ...] | None]:
        for shape in self._shapes:
            if shape is None:
                yield None
            else:
                sizes = [symbols.evaluate_size(size, values) for size in shape]
                assert None not in sizes  # the example determines all symbols
                yield tuple(size for size in sizes if size is not None)

    def _resize(self, values: Values) -> CallInputs:
        """The first call with other sizes: its values are cut or repeated."""
        resized = []
        for shape, leaf in zip(self._shapes_for(values), self._given[0], strict=True):
            for dim, size in enumerate(shape or ()):
                if size != leaf.shape[dim]:
                    leaf = leaf.index_select(dim, torch.arange(size) % leaf.shape[dim])
            resized.append(leaf)
        return make_call(*tree_unflatten(resized, self._spec))

    def _leaves(self, call: CallInputs) -> list[Any]:
        """The flat inputs of a call in the program's order; empty if they do not fit it."""
        try:
            return list(self._spec.flatten_up_to(arguments(call)))
        except (ValueError, TypeError, KeyError):
            return []

    def _dimensions(self, calls: Sequence[CallInputs]) -> list[Dimension]:
        found = []
        leaves = [self._leaves(call) for call in calls]
        for number, dim, size in symbols.find_dynamic_dimensions(self._program):
            low, high = symbols.declared_range(self._program, size)
            sizes = [_size(each, number, dim) for each in leaves]
            found.append(
                Dimension(input=self._names[number], dim=dim, low=low, high=high, sizes=sizes)
            )
        return found


def _mix(low: Values, high: Values) -> list[Values]:
    """Every second symbol at its minimum and the others at their maximum, and vice versa."""
    return [
        {symbol: (low, high)[(at + odd) % 2][symbol] for at, symbol in enumerate(low)}
        for odd in (0, 1)
    ]


def make_guard_check(program: ExportedProgram) -> Callable[[Sequence[Any]], str | None]:
    """Make a function that returns the guard of a program which excludes flat inputs, or None.

    Only shapes and dtypes of the inputs matter; they may be on the device ``meta``.
    """
    found: list[torch.nn.Module] = []
    # Lowering may have removed constants from the program of a case's own exporter.
    with suppress(KeyError):
        module = program.module()
        nodes = module.graph.find_nodes(op="call_module")
        found = [module.get_submodule(str(node.target)) for node in nodes]

    def find_excluding_guard(leaves: Sequence[Any]) -> str | None:
        for guards in found:
            try:
                guards(*leaves)
            except AssertionError as error:
                return describe(error, 200).removeprefix("AssertionError: ")
        return None

    return find_excluding_guard


def _size(leaves: Sequence[Any], number: int, dim: int) -> int:
    """The size of a dimension; 0 if the call does not fit the program, which fails elsewhere."""
    leaf = leaves[number] if number < len(leaves) else None
    return leaf.shape[dim] if isinstance(leaf, torch.Tensor) and dim < leaf.dim() else 0
