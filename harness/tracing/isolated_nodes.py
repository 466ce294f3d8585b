"""A few nodes alone, handed the oracle's values: does the error arise in them?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from harness.execution.process_lock import exclusive
from harness.model.case import Given
from harness.numerics.arithmetic import Float64Mode
from harness.numerics.formats.semantics import Semantics
from harness.numerics.module_runs import run_calls, run_calls_in_float64
from harness.tracing.candidates import segment
from harness.tracing.programs import Program, taken, window
from harness.tracing.value_flow import Flow, Watched

LEVELS = (0, 1, 2, 4, 8)
"""How many values back a window reaches, one after the other."""

# Nodes of a window; what it takes more to show is not the work of one kernel.
_LARGEST = 100


@dataclass(frozen=True)
class Windows:
    """Programs of a few nodes of a graph, at one call.

    Attributes:
        flow: the graph.
        calls: what the whole program is called with.
        call: the number of the call whose values are handed in.
        known: the nodes whose values can be looked at.
        semantics: what operators mean that are no arithmetic of tensors.
    """

    flow: Flow
    calls: tuple[Given, ...]
    call: int
    known: frozenset[Node]
    semantics: Semantics

    def around(self, end: Node, levels: Sequence[int] = LEVELS) -> Iterator[list[Node]]:
        """The nodes that make a value, then more and more of what that is made of."""
        previous = 0
        for level in levels:
            nodes = self.reaching(end, level)
            if len(nodes) == previous or (level and len(nodes) > _LARGEST):
                return
            previous = len(nodes)
            yield nodes

    def reaching(self, end: Node, level: int) -> list[Node]:
        """The nodes that make a value of those so many values before it."""
        known = set(self.known)
        inside = dict.fromkeys(segment(self.flow, end, known))
        for _ in range(level):
            edge = {source for node in inside for source in self.flow.sources.get(node, ())}
            for source in edge & known:
                inside.update(dict.fromkeys(segment(self.flow, source, known)))
        return self.closed(inside)

    def closed(self, nodes: Collection[Node]) -> list[Node]:
        """Some nodes and the views through which they write, in the order of the graph."""
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
                if any(self.flow.is_alias(source, of) for of in source.all_input_nodes)
                and any(writer in inside for writer in self._writers(source))
            }
            if not views:
                return [node for node in self.flow.nodes if node in inside]
            inside |= views

    def program(self, nodes: Sequence[Node], end: Node) -> Program:
        """The program of some nodes that returns the value of one, fed what the oracle has there,
        rounded to the dtype that it has in the graph."""
        return window(self.flow, nodes, end, self.values(nodes))

    def values(self, nodes: Sequence[Node]) -> dict[Node, Any]:
        """What some nodes are handed from outside: by the oracle where it is floating, by eager
        where it is not, each as it is when the first of the nodes takes it."""
        wanted = taken(self.flow, nodes)
        with exclusive():
            eager = self._watch(nodes, wanted, None)
            exact = self._watch(nodes, wanted, Float64Mode(self.semantics))
        return {
            node: _rounded(exact[node], eager[node], keeps_strides=node.op == "placeholder")
            for node in wanted
        }

    def _watch(
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

        watched = Watched(self.flow.module, before)
        calls = self.calls[: self.call + 1]
        if mode is None:
            run_calls(watched, calls)
        else:
            run_calls_in_float64(watched, calls, mode)
        return kept

    def _writers(self, node: Node) -> Sequence[Node]:
        return self.flow.writers.get(self.flow.seen[node].memory, ())


def _uses(node: Node, source: Node) -> bool:
    return source in node.all_input_nodes


def _rounded(exact: Any, eager: Any, *, keeps_strides: bool) -> Any:
    """The exact value in eager's dtype. Inputs of the program keep their strides, because a defect
    may depend on them; a value that a node makes is contiguous, as a backend would have it."""
    if not isinstance(eager, torch.Tensor):
        return eager
    is_float = eager.is_floating_point() and isinstance(exact, torch.Tensor)
    value = exact.to(eager.dtype) if is_float else eager
    if not keeps_strides:
        return value.contiguous()
    return torch.empty_strided(eager.shape, eager.stride(), dtype=eager.dtype).copy_(value)
