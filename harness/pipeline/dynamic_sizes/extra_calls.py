"""Calls of a program at those ends of its ranges at which its case has no calls.

A program is declared for ranges of sizes, and executed at a few of them: at the minimum, at the
maximum (where there is none, at twice and at ten times the example's size) and, unless the case has
calls of its own, between. Where several dimensions vary, all are at their minimum, all at their
maximum, then, unless the case has calls of its own, some at one and some at the other; not every
combination. The inputs repeat the values of the first call, or are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram

from harness.errors import describe
from harness.model.case import Given, arguments, named
from harness.pipeline.dynamic_sizes import symbols
from harness.pipeline.dynamic_sizes.symbols import Values, Volume
from harness.record.program_data import Dimension
from harness.vendors.torch import tree_unflatten

ELEMENTS = 2**22
"""Elements of the results of all nodes up to which every size is executed: the reference holds them
in float64, for some thirty runs."""

TWICE = 2
"""A size is executed as well where these elements are at most so many times those of the example:
what a machine had memory and time for once."""

_FAR = 10
_NAMED = 3
# Sizes that guards exclude are passed over, up to so many: guards ask for multiples of a number.
_STEPS = 128

Run = Callable[[Sequence[Given]], object]
"""Runs the module itself for a sequence of calls; raises where it refuses one."""


@dataclass(frozen=True)
class Sizes:
    """The sizes that a program is executed at.

    Attributes:
        calls: calls to add to those of the case.
        dimensions: what varies, with the size in each of the case's calls, then in those added.
        untried: sizes that are not executed, and why, a line each.
    """

    calls: tuple[Given, ...] = ()
    dimensions: list[Dimension] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)

    def at(self, call: int) -> str:
        """The sizes of one call that are not those of the first, which the program was exported
        with: ``x:0 = 5 (declared: 1 to 16; exported with 4)``. Empty where there are none."""
        # Where state is observed the last call is there once more.
        sizes = [(one, one.sizes[min(call, len(one.sizes) - 1)]) for one in self.dimensions]
        other = [(one, size) for one, size in sizes if size != one.sizes[0]]
        return ", ".join(
            f"{one} = {size} (declared: {one.span}; exported with {one.sizes[0]})"
            for one, size in other[:_NAMED]
        ) + (f" and {len(other) - _NAMED} more" if len(other) > _NAMED else "")


def further_sizes(program: ExportedProgram, calls: Sequence[Given], run: Run) -> Sizes:
    """Choose the sizes that a program's calls leave out.

    Args:
        program: an exported program.
        calls: its calls so far; the first has the example's sizes.
        run: runs the module that the program was exported from.
    """
    if not any(True for _ in symbols.varying(program)):
        return Sizes()
    return _Choice(program, calls, run).sizes()


class _Choice:
    def __init__(self, program: ExportedProgram, calls: Sequence[Given], run: Run) -> None:
        self._program = program
        self._calls = list(calls)
        self._run = run
        self._ranges = symbols.ranges(program)
        self._untried: list[str] = []
        self._volume = Volume(program)
        self._guards = guards_of(program)
        self._spec = program.call_spec.in_spec
        self._given = [self._leaves(call) for call in self._calls]
        self._seen = [symbols.values_in(program, leaves) for leaves in self._given]
        self._shapes = symbols.input_shapes(program)
        self._names = symbols.input_names(program)

    def sizes(self) -> Sizes:
        example = self._seen[0]
        added: list[Given] = []
        if example is None or not all(example.values()):
            self._untried.append("no other size: the sizes do not follow from single dimensions")
        else:
            self._most = max(ELEMENTS, TWICE * self._volume(example))
            wanted = [values for values in self._wanted(example) if values not in self._seen]
            added = self._accepted([self._resized(values) for values in wanted])
        dimensions = self._dimensions([*self._calls, *added])
        return Sizes(tuple(added), dimensions, list(dict.fromkeys(self._untried)))

    def _wanted(self, example: Values) -> list[Values]:
        """Values of the symbols to execute at."""
        ends = {symbol: (max(low, 1), high) for symbol, (low, high) in self._ranges.items()}
        low = {symbol: self._allowed(example, symbol, least) for symbol, (least, _) in ends.items()}
        high = {symbol: self._high(example, symbol, most) for symbol, (_, most) in ends.items()}
        found: list[Values] = [low]
        is_reached = self._is_small(high)
        if is_reached:
            found.append(high)
        elif len(high) == 1:
            found.append(self._within(example, high))
        if any(most is None for _, most in ends.values()):
            far = {s: high[s] if most else _FAR * example[s] for s, (_, most) in ends.items()}
            far = {symbol: self._allowed(example, symbol, far[symbol]) for symbol in far}
            if self._is_small(far):
                found.append(far)
        # Calls that a case has of its own stand for sizes between and for mixtures.
        is_alone = len(self._calls) == 1
        if len(low) > 1 and (is_alone or not is_reached):
            found += filter(self._is_small, _mixtures(low, high))
        if is_alone and self._is_small(middle := self._middle(example, low, high)):
            found.append(middle)
        unique = [values for at, values in enumerate(found) if values not in found[:at]]
        return [values for values in unique if values != example and self._is_allowed(values)]

    def _middle(self, example: Values, low: Values, high: Values) -> Values:
        """Between the ends, where the example itself is at one of them."""
        return {
            symbol: example[symbol]
            if low[symbol] < example[symbol] < high[symbol]
            else self._allowed(example, symbol, (low[symbol] + high[symbol]) // 2, end=False)
            for symbol in low
        }

    def _high(self, example: Values, symbol: Any, most: int | None) -> int:
        wanted = 2 * example[symbol] if most is None else most
        return self._allowed(example, symbol, wanted)

    def _within(self, example: Values, values: Values) -> Values:
        """Halfway from values that take too much to the example, until they do not."""
        found = values
        while self._volume(found) > self._most:
            found = {
                symbol: self._allowed(example, symbol, (found[symbol] + example[symbol]) // 2)
                for symbol in found
            }
        return found

    def _allowed(self, example: Values, symbol: Any, wanted: int, *, end: bool = True) -> int:
        """The size nearest to the one that is wanted, towards the example, that guards accept.

        Args:
            example: sizes of the other symbols.
            symbol: what varies.
            wanted: its value.
            end: whether it is an end of the range, whose absence is reported.
        """
        step = 1 if wanted < example[symbol] else -1
        for value in range(wanted, example[symbol], step)[:_STEPS]:
            values = {**example, symbol: value}
            refusal = self._guarded(values)
            if refusal is None:
                return value
            if end and value == wanted:
                self._leave_out({symbol: value}, f"the program's guards exclude it: {refusal}")
        return example[symbol]

    def _is_allowed(self, values: Values) -> bool:
        refusal = self._guarded(values)
        if refusal is not None:
            self._leave_out(values, f"the program's guards exclude it: {refusal}")
        return refusal is None

    def _guarded(self, values: Values) -> str | None:
        """The guard that excludes sizes, or None."""
        leaves = [
            leaf if shape is None else torch.empty(shape, dtype=leaf.dtype, device="meta")
            for leaf, shape in zip(self._given[0], self._shaped(values), strict=True)
        ]
        return self._guards(leaves)

    def _is_small(self, values: Values) -> bool:
        elements = self._volume(values)
        if values in self._seen:
            return True
        if elements > self._most:
            self._leave_out(
                values,
                f"its tensors would have {elements:.3g} elements; up to {self._most:.3g} are "
                "executed, twice those of the example's sizes where that is more",
            )
        return elements <= self._most

    def _accepted(self, wanted: list[Given]) -> list[Given]:
        """The calls that the module itself accepts: a program need not do more than it does."""
        try:
            self._run([*self._calls, *wanted])
            return wanted
        except Exception:  # whatever a module raises
            accepted: list[Given] = []
        for call in wanted:
            try:
                self._run([*self._calls, *accepted, call])
                accepted.append(call)
            except Exception as error:
                values = symbols.values_in(self._program, self._leaves(call)) or {}
                said = describe(error, 200)
                self._leave_out(values, f"it is in the range, and the module itself raises {said}")
        return accepted

    def _leave_out(self, values: Values, why: str) -> None:
        named_sizes = ", ".join(
            f"{self._names[number]}:{dim} = {value}"
            for number, dim, size in symbols.varying(self._program)
            if (value := symbols.value_of(size, values)) is not None
        )
        self._untried.append(f"{named_sizes} was not executed: {why}")

    def _shaped(self, values: Values) -> Iterator[tuple[int, ...] | None]:
        for shape in self._shapes:
            if shape is None:
                yield None
            else:
                sizes = [symbols.value_of(size, values) for size in shape]
                assert None not in sizes  # those of the example were determined alike
                yield tuple(size for size in sizes if size is not None)

    def _resized(self, values: Values) -> Given:
        """The first call with other sizes: its values, cut or repeated."""
        resized = []
        for shape, leaf in zip(self._shaped(values), self._given[0], strict=True):
            for dim, size in enumerate(shape or ()):
                if size != leaf.shape[dim]:
                    leaf = leaf.index_select(dim, torch.arange(size) % leaf.shape[dim])
            resized.append(leaf)
        return named(*tree_unflatten(resized, self._spec))

    def _leaves(self, call: Given) -> list[Any]:
        """The inputs of a call, flat, in the program's order; empty where they do not fit it."""
        try:
            return list(self._spec.flatten_up_to(arguments(call)))
        except (ValueError, TypeError, KeyError):
            return []

    def _dimensions(self, calls: Sequence[Given]) -> list[Dimension]:
        found = []
        leaves = [self._leaves(call) for call in calls]
        for number, dim, size in symbols.varying(self._program):
            low, high = symbols.extent(self._program, size)
            sizes = [_size(each, number, dim) for each in leaves]
            found.append(
                Dimension(input=self._names[number], dim=dim, low=low, high=high, sizes=sizes)
            )
        return found


def _mixtures(low: Values, high: Values) -> list[Values]:
    """Every second symbol at its minimum and the others at their maximum, and the reverse."""
    return [
        {symbol: (low, high)[(at + odd) % 2][symbol] for at, symbol in enumerate(low)}
        for odd in (0, 1)
    ]


def guards_of(program: ExportedProgram) -> Callable[[Sequence[Any]], str | None]:
    """What says, for flat inputs, which guard of a program excludes them; their values do not
    matter, so that tensors of the device ``meta`` do."""
    found: list[torch.nn.Module] = []
    # A case's own exporter hands over a program from which lowering may have taken constants.
    with suppress(KeyError):
        module = program.module()
        nodes = module.graph.find_nodes(op="call_module")
        found = [module.get_submodule(str(node.target)) for node in nodes]

    def excluded(leaves: Sequence[Any]) -> str | None:
        for guards in found:
            try:
                guards(*leaves)
            except AssertionError as error:
                return describe(error, 200).removeprefix("AssertionError: ")
        return None

    return excluded


def _size(leaves: Sequence[Any], number: int, dim: int) -> int:
    """0 where a call of the case does not fit the program: that fails elsewhere."""
    leaf = leaves[number] if number < len(leaves) else None
    return leaf.shape[dim] if isinstance(leaf, torch.Tensor) and dim < leaf.dim() else 0
