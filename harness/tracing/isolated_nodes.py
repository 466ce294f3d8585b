"""Programs of a few nodes with exact inputs, which show whether the error originates in them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from harness.execution.process_lock import hold_process_lock
from harness.model.case import CallInputs
from harness.numerics.arithmetic import Float64Mode
from harness.numerics.formats.semantics import OperatorSemantics
from harness.numerics.module_runs import run_calls, run_calls_in_float64
from harness.tracing.candidates import find_segment
from harness.tracing.programs import ProbeProgram, build_window, find_window_inputs
from harness.tracing.value_flow import ObservedGraph, ValueFlow

WINDOW_LEVELS = (0, 1, 2, 4, 8)
"""How many values back a window reaches, tried in this order."""

# Maximum number of nodes of a window; no single kernel computes more.
_MAX_NODES = 100


@dataclass(frozen=True)
class WindowBuilder:
    """Builds programs of a few nodes of a graph, with the inputs that they have in one call.

    Attributes:
        flow: the graph.
        calls: inputs of each call of the whole program.
        call: number of the call whose values become inputs.
        candidates: the nodes whose values can be measured.
        semantics: meaning of operators that are not tensor arithmetic.
    """

    flow: ValueFlow
    calls: tuple[CallInputs, ...]
    call: int
    candidates: frozenset[Node]
    semantics: OperatorSemantics

    def grow(self, end: Node, levels: Sequence[int] = WINDOW_LEVELS) -> Iterator[list[Node]]:
        """Yield the nodes that compute a value, then larger and larger sets that include its
        predecessors.
        """
        previous = 0
        for level in levels:
            nodes = self.collect_nodes(end, level)
            if len(nodes) == previous or (level and len(nodes) > _MAX_NODES):
                return
            previous = len(nodes)
            yield nodes

    def collect_nodes(self, end: Node, level: int) -> list[Node]:
        """Return the nodes that compute a value from the values ``level`` steps before it."""
        known = set(self.candidates)
        inside = dict.fromkeys(find_segment(self.flow, end, known))
        for _ in range(level):
            edge = {source for node in inside for source in self.flow.sources.get(node, ())}
            for source in edge & known:
                inside.update(dict.fromkeys(find_segment(self.flow, source, known)))
        return self.add_written_views(inside)

    def add_written_views(self, nodes: Collection[Node]) -> list[Node]:
        """Return some nodes, and the views through which they write, in graph order."""
        inside = set(nodes)
        while True:
            outside = {
                source
                for node in inside
                for source in node.all_input_nodes
                if source not in inside and source.op == "call_function"
            }
            views = {
                source
                for source in outside
                if any(self.flow.is_alias(source, origin) for origin in source.all_input_nodes)
                and any(writer in inside for writer in self._writers(source))
            }
            if not views:
                return [node for node in self.flow.nodes if node in inside]
            inside |= views

    def build_program(self, nodes: Sequence[Node], end: Node) -> ProbeProgram:
        """Build the program of some nodes that returns the value of one.

        Inputs are the oracle's values, rounded to the dtype that they have in the graph.
        """
        return build_window(self.flow, nodes, end, self.compute_inputs(nodes))

    def compute_inputs(self, nodes: Sequence[Node]) -> dict[Node, Any]:
        """Return the input values of some nodes.

        Floating values come from the oracle, others from eager, each at the time of its first use.
        """
        wanted = find_window_inputs(self.flow, nodes)
        with hold_process_lock():
            eager = self._collect_values(nodes, wanted, None)
            exact = self._collect_values(nodes, wanted, Float64Mode(self.semantics))
        return {
            node: _round_as_eager(exact[node], eager[node], keeps_strides=node.op == "placeholder")
            for node in wanted
        }

    def _collect_values(
        self, nodes: Sequence[Node], wanted: Sequence[Node], mode: Float64Mode | None
    ) -> dict[Node, Any]:
        takers: dict[Node, list[Node]] = {}
        inside = set(nodes)
        for node in wanted:
            taker = next(each for each in self.flow.nodes if each in inside and _uses(each, node))
            takers.setdefault(taker, []).append(node)
        kept: dict[Node, Any] = {}

        def before(call: int, node: Node, values: Mapping[Node, Any]) -> None:
            if call == self.call:
                for source in takers.get(node, ()):
                    value = values[source]
                    kept[source] = value.clone() if isinstance(value, torch.Tensor) else value

        watched = ObservedGraph(self.flow.module, before)
        calls = self.calls[: self.call + 1]
        if mode is None:
            run_calls(watched, calls)
        else:
            run_calls_in_float64(watched, calls, mode)
        return kept

    def _writers(self, node: Node) -> Sequence[Node]:
        return self.flow.writers.get(self.flow.observed[node].memory, ())


def _uses(node: Node, source: Node) -> bool:
    return source in node.all_input_nodes


def _round_as_eager(exact: Any, eager: Any, *, keeps_strides: bool) -> Any:
    """Round an exact value to eager's dtype.

    Inputs of the program keep their strides, because a defect may depend on them. The value of a
    node becomes contiguous, as a backend would store it.
    """
    if not isinstance(eager, torch.Tensor):
        return eager
    is_float = eager.is_floating_point() and isinstance(exact, torch.Tensor)
    value = exact.to(eager.dtype) if is_float else eager
    if not keeps_strides:
        return value.contiguous()
    return torch.empty_strided(eager.shape, eager.stride(), dtype=eager.dtype).copy_(value)
