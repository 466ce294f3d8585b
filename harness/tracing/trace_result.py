"""Results of tracing as plain values, for records, reports and programs."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from harness.record.cell import Cell
from harness.record.number_text import spell_numbers
from harness.record.program_data import Divergence


@dataclass(frozen=True)
class ValueSummary:
    """Summary of a tensor: minimum, maximum and mean of its finite values, and the number of
    others.
    """

    low: float
    high: float
    mean: float
    not_finite: int = 0

    def __str__(self) -> str:
        odd = f", {self.not_finite} not finite" if self.not_finite else ""
        return f"{self.low:.4g} to {self.high:.4g}, mean {self.mean:.4g}{odd}"


@dataclass(frozen=True)
class TracedNode:
    """One node of the exported graph: its value on the target compared with its exact value.

    Attributes:
        node: its name in the ATen graph.
        op: its operator, for example ``aten.gelu.default``; several, separated by ``+``, where one
            kernel computes them.
        source: the line of the model's code that it comes from, or empty.
        module: path of the module that it comes from, or empty.
        shapes: of its output and its inputs, ``float32[2, 8] <- float32[2, 4], float32[8, 4]``.
        call: number of the call with the largest bound used.
        error: absolute error of the element with the largest bound used.
        bound: the bound of that element.
        bound_used: error / bound; more than 1 is wrong.
        exceeding: number of elements beyond their bound.
        elements: number of elements.
        expected: values of the oracle; None for values that are not floating tensors.
        actual: values of the target.
        problem: description of the error, or None.
        arguments: arguments of its operator, in the format of a record.
        originates_here: set for the first wrong node only. True when the node is wrong with exact
            inputs, False when the error is inherited, None when this could not be determined.
        together: the nodes of the smallest subgraph that reproduces the error; more than one
            operator where a fused kernel causes it.
    """

    node: str
    op: str
    source: str
    module: str
    shapes: str
    call: int
    error: float
    bound: float
    bound_used: float
    exceeding: int
    elements: int
    expected: ValueSummary | None = None
    actual: ValueSummary | None = None
    problem: str | None = None
    arguments: tuple[str, ...] = ()
    originates_here: bool | None = None
    together: tuple[str, ...] = ()

    @property
    def born(self) -> bool | None:
        """Alias of ``originates_here``, kept for programs that use the earlier name."""
        return self.originates_here


@dataclass(frozen=True)
class Found:
    """Where a target diverges from the oracle.

    Attributes:
        cell: ``case@backend:recipe``.
        seed: run seed.
        runtime: the runtime that executed: ``native``, ``reference``, ``emulated`` or ``none``.
        stage: the failed stage, where the program does not run; else None.
        problem: description of the cell's error; None for a green cell.
        first: the first node in graph order that exceeds its bound although all values it depends
            on are within theirs; None where there is none, or no program to examine.
        nodes: every node that was measured, worst first.
        path: for an inherited error, the nodes that lead to the first one, each with its bound
            used.
        note: a remark on how the result was found; may be empty.
        stopped_early: the search ended early: a node before the first one may be wrong.
        candidates: number of nodes whose values can be measured.
        rounds: how often a set of nodes was chosen.
        programs: number of programs that were lowered and run.
        failing_node: the node that fails, of a program that does not run.
    """

    cell: str
    seed: int = 0
    runtime: str = "none"
    stage: str | None = None
    problem: str | None = None
    first: TracedNode | None = None
    nodes: tuple[TracedNode, ...] = ()
    path: tuple[str, ...] = ()
    note: str = ""
    stopped_early: bool = False
    candidates: int = 0
    rounds: int = 0
    programs: int = 0
    failing_node: Divergence | None = None

    @property
    def worst(self) -> TracedNode | None:
        """The measured node with the largest bound used."""
        return self.nodes[0] if self.nodes else None

    @property
    def divergence(self) -> Divergence | None:
        """The first node in the format of a record."""
        if self.failing_node is not None:
            return self.failing_node
        if self.first is None:
            return None
        return Divergence(
            node=self.first.node,
            op=self.first.op,
            module=self.first.module,
            source=self.first.source,
            shapes=self.first.shapes,
            arguments=self.first.arguments,
            error=self.first.error,
            bound=self.first.bound,
            bound_used=self.first.bound_used,
            originates_here=self.first.originates_here,
            note=f"{self.note}: a node before it may be wrong" if self.stopped_early else "",
        )

    def to_json(self) -> str:
        """Strict JSON; infinite and NaN values are spelled as in a record."""
        return msgspec.json.encode(spell_numbers(msgspec.to_builtins(self))).decode()


def add_trace(cell: Cell, found: Found | str) -> Cell:
    """Return a copy of a cell's record with the result of tracing it.

    Args:
        cell: the record.
        found: the result; a text gives the reason why there is none.
    """
    if isinstance(found, Found):
        if found.divergence is not None:
            return with_divergence(cell, found)
        green = "the cell was green when it was run again for tracing"
        found = found.note or ("no node is wrong" if found.problem else green)
    return msgspec.structs.replace(cell, trace_skipped=found)


def with_divergence(cell: Cell, found: Found) -> Cell:
    """Return a copy of a cell's record that names the first diverging node."""
    return msgspec.structs.replace(cell, first_divergence=found.divergence, trace_skipped="")
