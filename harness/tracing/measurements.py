"""Measures values of many nodes at once: a program returns them, and each is compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from harness.pipeline.explain.node_origin import (
    find_nearest_source,
    format_arguments,
    get_module_path,
)
from harness.pipeline.tester import Tester
from harness.record.cell import Numerics
from harness.tracing.candidates import describe_operators, find_segment, select_operators
from harness.tracing.trace_result import TracedNode, ValueSummary
from harness.tracing.trial import TrialResult
from harness.tracing.value_flow import ValueFlow


@dataclass(frozen=True)
class NodeMeasurement:
    """A node's value on the target, compared.

    Attributes:
        rows: the comparison, one row for each call.
        expected: the oracle's values in the worst call.
        actual: the target's values in the worst call.
    """

    rows: tuple[Numerics, ...]
    expected: ValueSummary | None = None
    actual: ValueSummary | None = None

    @property
    def worst(self) -> Numerics:
        """The row with the largest bound used; a wrong row before a correct one."""
        return max(self.rows, key=lambda row: (row.problem is not None, row.bound_used))

    @property
    def first_wrong_call(self) -> int | None:
        """The first call in which the value is wrong."""
        return next((row.call for row in self.rows if row.problem is not None), None)


def measure_nodes(
    values: Sequence[Node | None], outcome: TrialResult
) -> dict[Node, NodeMeasurement]:
    """Return the measurements of the nodes whose values a program returned.

    Args:
        values: the node behind each output; None for an output to ignore.
        outcome: result of the program.
    """
    made: dict[Node, NodeMeasurement] = {}
    if outcome.tester is None or outcome.verdict is None:
        return made
    for index, node in enumerate(values):
        rows = tuple(
            row for row in outcome.numerics if row.role == "output" and row.output == index
        )
        if node is not None and rows:
            plain = NodeMeasurement(rows)
            expected, actual = _get_value_pair(outcome.tester, plain.worst.call, index)
            made[node] = NodeMeasurement(rows, summarize(expected), summarize(actual))
    return made


def _get_value_pair(tester: Tester, call: int, index: int) -> tuple[Any, Any]:
    """Return the oracle's and the target's value of an output."""
    reference = tester.reference
    places = [(place.role, place.index) for place in reference.places[call]]
    returned = [(place.role, place.index) for place in tester.interface.positions]
    key = ("output", index)
    values = tester.execution.outputs[call]
    if key not in places or key not in returned or returned.index(key) >= len(values):
        return None, None
    return reference.oracle[call][places.index(key)], values[returned.index(key)]


def summarize(value: Any) -> ValueSummary | None:
    """Summarize a non-empty tensor of real numbers; None for anything else."""
    if not isinstance(value, torch.Tensor) or value.is_complex() or not value.numel():
        return None
    numbers = value.detach().double().flatten()
    finite = numbers[numbers.isfinite()]
    if not len(finite):
        return ValueSummary(float("nan"), float("nan"), float("nan"), len(numbers))
    return ValueSummary(
        float(finite.min()), float(finite.max()), float(finite.mean()), len(numbers) - len(finite)
    )


def describe_node(
    flow: ValueFlow, node: Node, known: set[Node], measured: NodeMeasurement
) -> TracedNode:
    """Describe a measured node."""
    nodes = find_segment(flow, node, known)
    main = (select_operators(nodes) or [node])[-1]
    row = measured.worst
    return TracedNode(
        node=main.name,
        op=describe_operators(nodes),
        source=find_nearest_source(main),
        module=get_module_path(main),
        shapes=describe_shapes(flow, node, nodes),
        call=row.call,
        # Error of the element that the bound belongs to; infinite where there are no elements.
        error=row.max_abs if row.worst_error is None else row.worst_error,
        bound=row.bound,
        bound_used=row.bound_used,
        exceeding=row.exceeding,
        elements=row.elements,
        expected=measured.expected,
        actual=measured.actual,
        problem=row.problem,
        arguments=tuple(format_arguments(main, seen=flow.observed)),
    )


def describe_shapes(flow: ValueFlow, end: Node, nodes: Sequence[Node]) -> str:
    """Return the shapes of outputs and inputs of some nodes: ``float32[2, 8] <- float32[2, 4]``."""
    inside = set(nodes)
    taken = dict.fromkeys(
        source for node in nodes for source in node.all_input_nodes if source not in inside
    )
    return f"{flow.observed[end]} <- {', '.join(_describe_values(flow, taken))}"


def _describe_values(flow: ValueFlow, nodes: Iterable[Node]) -> list[str]:
    return [str(flow.observed[node]) for node in nodes if flow.observed[node].dtype is not None]
