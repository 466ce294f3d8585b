"""Search for the first node that diverges from the oracle, by measuring a few values at a time.

Every program is compared like any other: with its own oracle and its own bound for each value. For
a wrong value, only the nodes that it depends on, without a correct value in between, are suspects.
A round measures some of them, and the earliest wrong value becomes the new starting point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch.fx import Node

from harness.model.case import CallInputs
from harness.record.cell import Numerics
from harness.tracing.candidates import find_candidates, is_data_movement
from harness.tracing.measurements import NodeMeasurement, measure_nodes
from harness.tracing.programs import build_prefix, build_tapped
from harness.tracing.trial import TrialResult, TrialRunner
from harness.tracing.value_flow import ValueFlow

MAX_TAPS = 24
"""Maximum number of taps: values that a program returns in addition to its own outputs."""

# Limit of the elements of all taps of a program: about six float64 copies are in memory.
_ELEMENTS = 2**24

# Maximum number of programs of a search; a chain of a million nodes needs fewer.
_MOST_PROGRAMS = 80


@dataclass
class DivergenceSearch:
    """One search in one graph.

    Attributes:
        runner: runs the programs.
        flow: the graph.
        calls: inputs of each call of the program.
        candidates: the nodes whose values can be measured.
        measurements: their values in programs that are as wrong as the whole one.
        note: a remark for the reader; may be empty.
        stopped_early: the search ended before the first node was certain.
        rounds: how often nodes were chosen.
        unmeasurable: nodes whose values cannot be outputs: the program then fails.
    """

    runner: TrialRunner
    flow: ValueFlow
    calls: tuple[CallInputs, ...]
    taps: int = MAX_TAPS
    candidates: list[Node] = field(default_factory=list)
    measurements: dict[Node, NodeMeasurement] = field(default_factory=dict)
    unmeasurable: set[Node] = field(default_factory=set)
    note: str = ""
    stopped_early: bool = False
    rounds: int = 0

    def __post_init__(self) -> None:
        self.candidates = find_candidates(self.flow)
        self._order = {node: place for place, node in enumerate(self.flow.nodes)}
        self._wrong: set[tuple[int, str, int]] = set()

    def find_first(self, whole: TrialResult) -> tuple[Node, int] | None:
        """Return the first wrong node and the call in which it is wrong.

        Args:
            whole: the result of the program itself; red.

        Returns:
            None where no output has a wrong value that could be followed.
        """
        self._wrong = {_output_key(row) for row in whole.numerics if row.problem is not None}
        returned = tuple(
            item if isinstance(item, Node) else None for item in get_returned_values(self.flow)
        )
        self.measurements.update(measure_nodes(returned, whole))
        ends = self._find_wrong_outputs(whole.numerics)
        if not ends:
            return None
        return self._refine(self._earliest(ends))

    def find_earlier(self, found: tuple[Node, int]) -> tuple[Node, int] | None:
        """Return a wrong node before one whose error is inherited.

        Correct values may be in between: an error that is small beside the other terms of a sum
        reappears after it.

        Returns:
            None where there is none.
        """
        return self._find_before(found, lambda node: True)

    def find_earlier_among(
        self, names: Sequence[str], found: tuple[Node, int]
    ) -> tuple[Node, int] | None:
        """Return an earlier wrong node among the given names.

        Returns:
            None where there is none.
        """
        return self._find_before(found, lambda node: node.name in names)

    def _find_before(
        self, found: tuple[Node, int], accepts: Callable[[Node], bool]
    ) -> tuple[Node, int] | None:
        while suspects := list(
            filter(accepts, self._find_suspects(found, through_correct_values=True))
        ):
            if self._should_stop() or not self._run_round(suspects, found):
                return None
            earliest = self._earliest([found, *self._find_wrong_nodes()])
            if earliest != found:
                return self._refine(earliest)
        return None

    def _refine(self, found: tuple[Node, int]) -> tuple[Node, int]:
        """Return the first wrong node whose predecessors are all correct."""
        while suspects := self._find_suspects(found):
            if self._should_stop():
                return found
            if not self._run_round(suspects, found):
                return self._bisect_prefixes(found)
            found = self._earliest([found, *self._find_wrong_nodes()])
        return found

    def _run_round(self, suspects: Sequence[Node], found: tuple[Node, int]) -> bool:
        """Measure some suspects; return whether the program stayed wrong."""
        self.rounds += 1
        # Nodes that only move values rarely err; they are measured last.
        chosen = self._choose([node for node in suspects if not is_data_movement(node)] or suspects)
        self.runner.on_progress(
            f"round {self.rounds}: {len(chosen)} of {len(suspects)} nodes before {found[0]}"
        )
        return self._measure(chosen)

    def _should_stop(self) -> bool:
        if self.runner.programs_tried <= _MOST_PROGRAMS and self.runner.has_time:
            return False
        self.stopped_early = True
        seconds, tried = self.runner.elapsed_seconds, self.runner.programs_tried
        self.note = f"given up; programs tried: {tried}, in {seconds:.0f} s"
        return True

    def _earliest(self, ends: Sequence[tuple[Node, int]]) -> tuple[Node, int]:
        return min(ends, key=lambda end: (end[1], self._order[end[0]]))

    def measure_all(self) -> None:
        """Measure every candidate, a few at a time."""
        remaining = [node for node in self.candidates if node not in self.measurements]
        while remaining and self.runner.has_time:
            self.rounds += 1
            chosen = self._choose(remaining)
            self.runner.on_progress(f"round {self.rounds}: {len(remaining)} nodes remain")
            self._measure(chosen)
            remaining = [
                node
                for node in remaining
                if node not in self.measurements
                and node not in self.unmeasurable
                and node not in chosen
            ]

    def _find_wrong_outputs(self, rows: Sequence[Numerics]) -> list[tuple[Node, int]]:
        """Return the nodes behind the wrong outputs of the program itself."""
        returned = get_returned_values(self.flow)
        placeholders = [node for node in self.flow.nodes if node.op == "placeholder"]
        ends = []
        for row in rows:
            if row.problem is None:
                continue
            if row.role == "output":
                node = returned[row.output] if row.output < len(returned) else None
            else:
                writers = self.flow.writers.get(self.flow.observed[placeholders[row.output]].memory)
                node = writers[-1] if writers else None
            if isinstance(node, Node):
                ends.append((node, row.call))
                place = (row.role, row.output)
                same = tuple(each for each in rows if (each.role, each.output) == place)
                self.measurements.setdefault(node, NodeMeasurement(same))
        return ends

    def _find_wrong_nodes(self) -> list[tuple[Node, int]]:
        return [
            (node, call)
            for node, measured in self.measurements.items()
            if (call := measured.first_wrong_call) is not None
        ]

    def _find_suspects(
        self, found: tuple[Node, int], *, through_correct_values: bool = False
    ) -> list[Node]:
        """Return unmeasured nodes that may have caused a wrong value.

        Nodes behind a correct value are excluded, unless ``through_correct_values``.
        """
        end, call = found

        def is_right(node: Node) -> bool:
            if through_correct_values:
                return False
            measured = self.measurements.get(node)
            return measured is not None and (
                measured.first_wrong_call is None or measured.first_wrong_call > call
            )

        behind = set(self.flow.find_ancestors([end], is_right))
        return [
            node
            for node in self.candidates
            if node in behind and node not in self.measurements and node not in self.unmeasurable
        ]

    def _choose(self, suspects: Sequence[Node]) -> list[Node]:
        """Choose suspects, evenly spaced, as many as a program may return."""
        number = min(self.taps, len(suspects))
        while True:
            chosen = sample_evenly(suspects, number)
            size = sum(self.flow.observed[node].elements for node in chosen)
            if size <= _ELEMENTS or number == 1:
                return chosen
            number = max(1, number // 2)

    def _measure(self, taps: Sequence[Node]) -> bool:
        """Measure some nodes; return whether the program stayed as wrong as the whole one.

        Where a program does not lower with these outputs, it is tried with fewer of them.
        """
        if not self.runner.has_time:
            return True  # the caller stops
        program = build_tapped(self.flow, taps, self.calls, self.runner.case.dynamic_shapes)
        outcome = self.runner.try_program(program)
        if outcome.stage is not None:
            if len(taps) == 1:
                self.unmeasurable.update(taps)
                return True
            half = len(taps) // 2
            return self._measure(taps[:half]) and self._measure(taps[half:])
        found = measure_nodes(program.values, outcome)
        still = {_output_key(row) for row in outcome.numerics if row.problem is not None}
        is_wrong = any(each.first_wrong_call is not None for each in found.values())
        # A wrong value counts even where the additional outputs change the program's own.
        if self._wrong and not self._wrong & still and not is_wrong:
            return False
        self.measurements.update(found)
        self.unmeasurable.update(tap for tap in taps if tap not in self.measurements)
        return True

    def _bisect_prefixes(self, found: tuple[Node, int]) -> tuple[Node, int]:
        """Return the first node at which a program that ends there is wrong."""
        self.note = (
            "with some node values as additional outputs the error disappears, as it does for a "
            "kernel that fuses several nodes or for an error close to its bound; programs that end "
            "at a node were compared instead"
        )
        suspects = [node for node in self._find_suspects(found) if node is not found[0]]
        low, high = 0, len(suspects)
        best = found
        while low < high and not self._should_stop():
            self.rounds += 1
            middle = (low + high) // 2
            end = suspects[middle]
            self.runner.on_progress(f"round {self.rounds}: the program up to {end}")
            program = build_prefix(self.flow, end, self.calls, self.runner.case.dynamic_shapes)
            outcome = self.runner.try_program(program)
            measured = measure_nodes(program.values, outcome).get(end)
            if measured is None:
                self.unmeasurable.add(end)
                suspects.remove(end)
                high -= 1
                continue
            self.measurements[end] = measured
            if (call := measured.first_wrong_call) is not None:
                best, high = (end, call), middle
            else:
                low = middle + 1
        return best


def get_returned_values(flow: ValueFlow) -> tuple[Any, ...]:
    """Return the leaves of a graph's output: nodes and constants."""
    returned: Any = flow.module.graph.output_node().args[0]
    return tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)


def sample_evenly(items: Sequence[Node], number: int) -> list[Node]:
    """Return ``number`` evenly spaced items; for one, the middle item."""
    if number >= len(items):
        return list(items)
    return [items[(2 * place + 1) * len(items) // (2 * number)] for place in range(number)]


def _output_key(row: Numerics) -> tuple[int, str, int]:
    return (row.call, row.role, row.output)
