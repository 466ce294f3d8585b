"""The first node that leaves the oracle: found by looking at a few values at a time.

Every program is judged like any other one: its own oracle, its own bound for each value. Behind a
wrong value only what leads there past no right one is suspect; a round looks at some of that, and
the wrong value that comes first takes the place of the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch.fx import Node

from harness.model.case import Given
from harness.record.cell import Numerics
from harness.tracing.candidates import candidates, moves
from harness.tracing.measurements import Measured, measure
from harness.tracing.programs import prefix, tapped
from harness.tracing.trial import Bench, Outcome
from harness.tracing.value_flow import Flow

TAPS = 24
"""Values that a program returns at most beside its own."""

# Elements of all taps of a program together: a float64 of each is held some six times.
_ELEMENTS = 2**24

# Programs after which a search gives up; a chain of a million nodes takes less.
_MOST_PROGRAMS = 80


@dataclass
class Search:
    """One search in one graph.

    Attributes:
        bench: where programs are tried.
        flow: the graph.
        calls: what the program is called with.
        known: the nodes whose values can be looked at.
        measured: what was seen of them in programs that are as wrong as the whole one.
        note: what a reader has to know; may be empty.
        given_up: it ended before the first one was certain.
        rounds: how often nodes were chosen.
        unseen: nodes that cannot be looked at: with their values as outputs a program fails.
    """

    bench: Bench
    flow: Flow
    calls: tuple[Given, ...]
    taps: int = TAPS
    known: list[Node] = field(default_factory=list)
    measured: dict[Node, Measured] = field(default_factory=dict)
    unseen: set[Node] = field(default_factory=set)
    note: str = ""
    given_up: bool = False
    rounds: int = 0

    def __post_init__(self) -> None:
        self.known = candidates(self.flow)
        self._order = {node: place for place, node in enumerate(self.flow.nodes)}
        self._wrong: set[tuple[int, str, int]] = set()

    def first(self, whole: Outcome) -> tuple[Node, int] | None:
        """The first wrong node and the call in which it is wrong.

        Args:
            whole: the outcome of the program itself; red.

        Returns:
            None where no output has a wrong value that could be followed.
        """
        self._wrong = {_place(row) for row in whole.rows if row.problem is not None}
        returned = tuple(
            item if isinstance(item, Node) else None for item in returned_by(self.flow)
        )
        self.measured.update(measure(returned, whole))
        ends = self._ends(whole.rows)
        if not ends:
            return None
        return self._refine(self._earliest(ends))

    def wider(self, found: tuple[Node, int]) -> tuple[Node, int] | None:
        """A wrong node before one whose error was not born there: right values may be between,
        because an error that is small beside the others of a sum shows again behind it.

        Returns:
            None where there is none.
        """
        return self._before(found, lambda node: True)

    def among(self, names: Sequence[str], found: tuple[Node, int]) -> tuple[Node, int] | None:
        """A wrong node among those without which another is not wrong.

        Returns:
            None where there is none.
        """
        return self._before(found, lambda node: node.name in names)

    def _before(
        self, found: tuple[Node, int], may_be: Callable[[Node], bool]
    ) -> tuple[Node, int] | None:
        while suspects := list(filter(may_be, self._suspects(found, past_right=True))):
            if self._give_up() or not self._round(suspects, found):
                return None
            earliest = self._earliest([found, *self._bad()])
            if earliest != found:
                return self._refine(earliest)
        return None

    def _refine(self, found: tuple[Node, int]) -> tuple[Node, int]:
        """The first wrong node behind which every value is right."""
        while suspects := self._suspects(found):
            if self._give_up():
                return found
            if not self._round(suspects, found):
                return self._cut(found)
            found = self._earliest([found, *self._bad()])
        return found

    def _round(self, suspects: Sequence[Node], found: tuple[Node, int]) -> bool:
        """Look at some suspects; whether the program stayed wrong."""
        self.rounds += 1
        # What only moves values seldom errs; it is looked at when nothing else is left.
        chosen = self._choose([node for node in suspects if not moves(node)] or suspects)
        self.bench.say(
            f"round {self.rounds}: {len(chosen)} of {len(suspects)} nodes before {found[0]}"
        )
        return self._look(chosen)

    def _give_up(self) -> bool:
        if self.bench.programs <= _MOST_PROGRAMS and self.bench.has_time:
            return False
        self.given_up = True
        self.note = f"given up; programs tried: {self.bench.programs}, in {self.bench.spent:.0f} s"
        return True

    def _earliest(self, ends: Sequence[tuple[Node, int]]) -> tuple[Node, int]:
        return min(ends, key=lambda end: (end[1], self._order[end[0]]))

    def look_at_all(self) -> None:
        """Look at every node that has a value, some at a time."""
        remaining = [node for node in self.known if node not in self.measured]
        while remaining and self.bench.has_time:
            self.rounds += 1
            chosen = self._choose(remaining)
            self.bench.say(f"round {self.rounds}: {len(remaining)} nodes are left to look at")
            self._look(chosen)
            remaining = [
                node
                for node in remaining
                if node not in self.measured and node not in self.unseen and node not in chosen
            ]

    def _ends(self, rows: Sequence[Numerics]) -> list[tuple[Node, int]]:
        """Nodes behind values that the program itself returned wrong."""
        returned = returned_by(self.flow)
        placeholders = [node for node in self.flow.nodes if node.op == "placeholder"]
        ends = []
        for row in rows:
            if row.problem is None:
                continue
            if row.role == "output":
                node = returned[row.output] if row.output < len(returned) else None
            else:
                writers = self.flow.writers.get(self.flow.seen[placeholders[row.output]].memory)
                node = writers[-1] if writers else None
            if isinstance(node, Node):
                ends.append((node, row.call))
                place = (row.role, row.output)
                same = tuple(each for each in rows if (each.role, each.output) == place)
                self.measured.setdefault(node, Measured(same))
        return ends

    def _bad(self) -> list[tuple[Node, int]]:
        return [
            (node, call)
            for node, measured in self.measured.items()
            if (call := measured.first_bad) is not None
        ]

    def _suspects(self, found: tuple[Node, int], *, past_right: bool = False) -> list[Node]:
        """Nodes not looked at that may have made a value wrong: no right value is between, unless
        one may be."""
        end, call = found

        def is_right(node: Node) -> bool:
            if past_right:
                return False
            measured = self.measured.get(node)
            return measured is not None and (
                measured.first_bad is None or measured.first_bad > call
            )

        behind = set(self.flow.behind([end], is_right))
        return [
            node
            for node in self.known
            if node in behind and node not in self.measured and node not in self.unseen
        ]

    def _choose(self, suspects: Sequence[Node]) -> list[Node]:
        """Some of them, evenly spaced, as many as a program may return."""
        number = min(self.taps, len(suspects))
        while True:
            chosen = evenly(suspects, number)
            size = sum(self.flow.seen[node].elements for node in chosen)
            if size <= _ELEMENTS or number == 1:
                return chosen
            number = max(1, number // 2)

    def _look(self, taps: Sequence[Node]) -> bool:
        """Measure some nodes; whether the program stayed wrong as the whole one is.

        What cannot be lowered with a value as an output is tried with fewer of them.
        """
        if not self.bench.has_time:
            return True  # whoever asked gives up
        program = tapped(self.flow, taps, self.calls, self.bench.case.dynamic_shapes)
        outcome = self.bench.attempt(program)
        if outcome.stage is not None:
            if len(taps) == 1:
                self.unseen.update(taps)
                return True
            half = len(taps) // 2
            return self._look(taps[:half]) and self._look(taps[half:])
        found = measure(program.values, outcome)
        still = {_place(row) for row in outcome.rows if row.problem is not None}
        is_wrong = any(each.first_bad is not None for each in found.values())
        # A wrong value is one, whatever becomes of the outputs with the taps there.
        if self._wrong and not self._wrong & still and not is_wrong:
            return False
        self.measured.update(found)
        self.unseen.update(tap for tap in taps if tap not in self.measured)
        return True

    def _cut(self, found: tuple[Node, int]) -> tuple[Node, int]:
        """The first node at which a program that ends there is wrong."""
        self.note = (
            "with some values as outputs the error is gone, as that of a kernel that computes "
            "several nodes as one, or one close to its bound; programs that end at a node were "
            "compared instead"
        )
        suspects = [node for node in self._suspects(found) if node is not found[0]]
        low, high = 0, len(suspects)
        best = found
        while low < high and not self._give_up():
            self.rounds += 1
            middle = (low + high) // 2
            end = suspects[middle]
            self.bench.say(f"round {self.rounds}: the program up to {end}")
            program = prefix(self.flow, end, self.calls, self.bench.case.dynamic_shapes)
            outcome = self.bench.attempt(program)
            measured = measure(program.values, outcome).get(end)
            if measured is None:
                self.unseen.add(end)
                suspects.remove(end)
                high -= 1
                continue
            self.measured[end] = measured
            if (call := measured.first_bad) is not None:
                best, high = (end, call), middle
            else:
                low = middle + 1
        return best


def returned_by(flow: Flow) -> tuple[Any, ...]:
    """What a graph returns, leaf by leaf: nodes and constants."""
    returned: Any = flow.module.graph.output_node().args[0]
    return tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)


def evenly(items: Sequence[Node], number: int) -> list[Node]:
    """So many of the items, evenly spaced, the middle one of one."""
    if number >= len(items):
        return list(items)
    return [items[(2 * place + 1) * len(items) // (2 * number)] for place in range(number)]


def _place(row: Numerics) -> tuple[int, str, int]:
    return (row.call, row.role, row.output)
