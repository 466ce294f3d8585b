"""What tracing a cell found, as plain values that a record, a page or a program can keep."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from harness.record.cell import Cell, Divergence
from harness.record.number_text import spell


@dataclass(frozen=True)
class Summary:
    """The values of a tensor: smallest, largest, mean of the finite ones; how many are not."""

    low: float
    high: float
    mean: float
    not_finite: int = 0

    def __str__(self) -> str:
        odd = f", {self.not_finite} not finite" if self.not_finite else ""
        return f"{self.low:.4g} to {self.high:.4g}, mean {self.mean:.4g}{odd}"


@dataclass(frozen=True)
class NodeFound:
    """One node of the exported graph, as a target computes it and as it should be.

    Attributes:
        node: its name in the ATen graph.
        op: its operator, ``aten.gelu.default``; several, with ``+`` between them, where a kernel
            computes them as one.
        source: the line of the model that made it, or empty.
        module: path of the module it is from, or empty.
        shapes: of what it makes and takes, ``float32[2, 8] <- float32[2, 4], float32[8, 4]``.
        call: number of the call that shows the largest part of the bound used.
        error: absolute error at the element that uses most of its bound.
        bound: the bound of that element.
        bound_used: their quotient; more than 1 is wrong.
        exceeding: elements beyond their bound.
        elements: of how many.
        expected: values of the oracle; None for what is no floating tensor.
        actual: values of the target.
        problem: what is wrong, or None.
        arguments: what its operator is called with, as a record spells it.
        born: for the first node alone: whether the error arises here when the node is handed the
            oracle's inputs; None where that could not be tried.
        together: the nodes of the smallest program around it that shows the error; more than one
            operator where a fused kernel makes it.
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
    expected: Summary | None = None
    actual: Summary | None = None
    problem: str | None = None
    arguments: tuple[str, ...] = ()
    born: bool | None = None
    together: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """Where a target leaves the oracle.

    Attributes:
        cell: ``case@backend:recipe``.
        seed: run seed.
        runtime: who executed: ``native``, ``reference``, ``emulated`` or ``none``.
        stage: the stage that failed, where the program does not even run; else None.
        problem: what is wrong with the cell; None for a green one.
        first: the first node, in the order of the graph, that exceeds its bound though all that it
            is made of is within theirs; None where there is none, or no program to look at.
        nodes: every node that was looked at, worst first.
        path: of an inherited error, the nodes that led to the first one, with the largest parts of
            their bounds used.
        note: what a reader has to know about how it was found; may be empty.
        given_up: the search ended early: a node before the first one may be wrong.
        candidates: how many nodes have values that can be looked at.
        rounds: how often a set of nodes was chosen.
        programs: how many programs were lowered and run.
        failing: the node that fails, of a program that is not even executed.
    """

    cell: str
    seed: int = 0
    runtime: str = "none"
    stage: str | None = None
    problem: str | None = None
    first: NodeFound | None = None
    nodes: tuple[NodeFound, ...] = ()
    path: tuple[str, ...] = ()
    note: str = ""
    given_up: bool = False
    candidates: int = 0
    rounds: int = 0
    programs: int = 0
    failing: Divergence | None = None

    @property
    def worst(self) -> NodeFound | None:
        """Of all nodes that were looked at, the one that uses most of its bound."""
        return self.nodes[0] if self.nodes else None

    @property
    def divergence(self) -> Divergence | None:
        """The first node as a record keeps it."""
        if self.failing is not None:
            return self.failing
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
            born=self.first.born,
            note=f"{self.note}: a node before it may be wrong" if self.given_up else "",
        )

    def to_json(self) -> str:
        """Strict JSON; numbers that it cannot write are spelled as in a record."""
        return msgspec.json.encode(spell(msgspec.to_builtins(self))).decode()


def recorded(cell: Cell, found: Found | str) -> Cell:
    """A copy of a cell's record with what tracing it found, or with why that is nothing.

    Args:
        cell: the record.
        found: what was found; a text says why nothing could be.
    """
    if isinstance(found, Found):
        if found.divergence is not None:
            return with_divergence(cell, found)
        green = "run once more to be traced it was green"
        found = found.note or ("no node of it is wrong" if found.problem else green)
    return msgspec.structs.replace(cell, untraced=found)


def with_divergence(cell: Cell, found: Found) -> Cell:
    """A copy of a cell's record that names the node that tracing it found."""
    return msgspec.structs.replace(cell, first_divergence=found.divergence, untraced="")
