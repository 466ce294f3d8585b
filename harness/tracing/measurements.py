"""Values of many nodes at once: a program that returns them, taken to the target and judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from harness.pipeline.explain.node_origin import arguments_of, module_of, nearest_source
from harness.pipeline.tester import Tester
from harness.record.cell import Numerics
from harness.tracing.candidates import computing, operators, segment
from harness.tracing.trace_result import NodeFound, Summary
from harness.tracing.trial import Outcome
from harness.tracing.value_flow import Flow


@dataclass(frozen=True)
class Measured:
    """What a program made of a node's value.

    Attributes:
        rows: what was compared, a row a call.
        expected: the oracle's values in the worst of the calls.
        actual: the target's.
    """

    rows: tuple[Numerics, ...]
    expected: Summary | None = None
    actual: Summary | None = None

    @property
    def worst(self) -> Numerics:
        """The row that uses most of its bound; a wrong one before one that is right."""
        return max(self.rows, key=lambda row: (row.problem is not None, row.bound_used))

    @property
    def first_bad(self) -> int | None:
        """The first call in which it is wrong."""
        return next((row.call for row in self.rows if row.problem is not None), None)


def measure(values: Sequence[Node | None], outcome: Outcome) -> dict[Node, Measured]:
    """The values that a program returned of nodes, as they were judged.

    Args:
        values: the node behind each output; None for one that is of no interest.
        outcome: of the program.
    """
    made: dict[Node, Measured] = {}
    if outcome.tester is None or outcome.verdict is None:
        return made
    for index, node in enumerate(values):
        rows = tuple(row for row in outcome.rows if row.role == "output" and row.output == index)
        if node is not None and rows:
            plain = Measured(rows)
            expected, actual = _both(outcome.tester, plain.worst.call, index)
            made[node] = Measured(rows, summary(expected), summary(actual))
    return made


def _both(tester: Tester, call: int, index: int) -> tuple[Any, Any]:
    """The oracle's and the target's value of an output."""
    reference = tester.reference
    places = [(place.role, place.index) for place in reference.places[call]]
    returned = [(place.role, place.index) for place in tester.interface.places]
    key = ("output", index)
    values = tester.execution.outputs[call]
    if key not in places or key not in returned or returned.index(key) >= len(values):
        return None, None
    return reference.oracle[call][places.index(key)], values[returned.index(key)]


def summary(value: Any) -> Summary | None:
    """Of a tensor of real numbers that is not empty; None of anything else."""
    if not isinstance(value, torch.Tensor) or value.is_complex() or not value.numel():
        return None
    numbers = value.detach().double().flatten()
    finite = numbers[numbers.isfinite()]
    if not len(finite):
        return Summary(float("nan"), float("nan"), float("nan"), len(numbers))
    return Summary(
        float(finite.min()), float(finite.max()), float(finite.mean()), len(numbers) - len(finite)
    )


def node_found(flow: Flow, node: Node, known: set[Node], measured: Measured) -> NodeFound:
    """The row of a table for a node."""
    nodes = segment(flow, node, known)
    main = (computing(nodes) or [node])[-1]
    row = measured.worst
    return NodeFound(
        node=main.name,
        op=operators(nodes),
        source=nearest_source(main),
        module=module_of(main),
        shapes=shapes(flow, node, nodes),
        call=row.call,
        # Of the element that the bound is of; what has no elements is infinitely wrong.
        error=row.max_abs if row.worst_error is None else row.worst_error,
        bound=row.bound,
        bound_used=row.bound_used,
        exceeding=row.exceeding,
        elements=row.elements,
        expected=measured.expected,
        actual=measured.actual,
        problem=row.problem,
        arguments=tuple(arguments_of(main, seen=flow.seen)),
    )


def shapes(flow: Flow, end: Node, nodes: Sequence[Node]) -> str:
    """``float32[2, 8] <- float32[2, 4], float32[8, 4]``: what some nodes make of what."""
    inside = set(nodes)
    taken = dict.fromkeys(
        source for node in nodes for source in node.all_input_nodes if source not in inside
    )
    return f"{flow.seen[end]} <- {', '.join(_shown(flow, taken))}"


def _shown(flow: Flow, nodes: Iterable[Node]) -> list[str]:
    return [str(flow.seen[node]) for node in nodes if flow.seen[node].dtype is not None]
