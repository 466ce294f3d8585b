"""``reduce``: the smallest program made of a red cell's graph that is red for the same reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from harness.errors import UsageError
from harness.model.backend import Backend
from harness.model.case import Case
from harness.model.recipe import Recipe
from harness.record.target import Target
from harness.tracing.candidates import operators
from harness.tracing.isolated_nodes import LEVELS, Windows
from harness.tracing.programs import Program, prefix, tapped
from harness.tracing.search import Search
from harness.tracing.submodules import smallest_submodule
from harness.tracing.trace import search_in, windows_at
from harness.tracing.trial import REQUIREMENT, UNSUPPORTED, Bench, Outcome, Say

# How many values back a window reaches before the program up to the node is taken instead.
_LEVELS = (*LEVELS, 16)

# Programs that are tried to leave single nodes out.
_ATTEMPTS = 24

_OF_THE_CASE = ("build", "reference")


@dataclass(frozen=True)
class Reduced:
    """A small program that is red as its cell is.

    Attributes:
        cell: ``case@backend:recipe`` of the cell.
        case: the small program, with its inputs.
        target: where it is red.
        seed: run seed.
        recipe: how it is lowered: the target's, without what the program has behind it already.
        nodes: the nodes of the cell's graph that it consists of; empty for a submodule.
        operators: what they call.
        stage: where it is red: ``compare`` or the stage that fails.
        problem: what is wrong with it.
        original: what is wrong with the cell.
        total: nodes of the cell's graph; 0 where it has none.
        programs: how many programs were tried.
        note: what a reader has to know; may be empty.
    """

    cell: str
    case: Case
    target: Target
    seed: int
    recipe: Recipe
    nodes: tuple[str, ...]
    operators: str
    stage: str
    problem: str
    original: str
    total: int
    programs: int
    note: str = ""


def reduce(
    case: Case,
    target: Target | str,
    seed: int = 0,
    *,
    recipe: Recipe | None = None,
    backend: Backend | None = None,
    say: Say | None = None,
    isolate: bool = True,
) -> Reduced:
    """Shrink a red cell to the smallest part of its graph that is red for the same reason: the same
    stage with the same error, numbers aside, or a value beyond its bound.

    A wrong value is followed to its first node, a failure to the first node with which the program
    still fails; from there, as much of what that is made of as it takes, handed the oracle's
    values.

    Args:
        case: what is tested.
        target: where.
        seed: run seed.
        recipe: used instead of the one that the target names.
        backend: used instead of the one that the target names.
        say: hears what is being done.
        isolate: execute in a child process, so that a crash is a failure like any other.

    Raises:
        UsageError: the cell is green, or red for a reason that no part of it has.
    """
    bench = Bench(case, target, seed, recipe, backend, say, isolate=isolate)
    bench.say("running the program as it is")
    whole = bench.whole()
    if not whole.is_red:
        raise UsageError(f"{bench.cell} is green with seed {seed}: there is nothing to reduce")
    if whole.stage in (UNSUPPORTED, REQUIREMENT, *_OF_THE_CASE) or whole.tester is None:
        raise UsageError(
            f"{bench.cell} cannot be reduced: it ends with {whole.problem}, which is not about the "
            f"operators of its graph"
        )
    if whole.stage in ("export", "quantize"):
        part = smallest_submodule(bench, whole)
        return _reduced(bench, whole, part.outcome, part.case, part.recipe, note=part.note)
    search = search_in(bench, whole)
    return _Reduction(search, whole).smallest()


class _Reduction:
    """One reduction of a graph."""

    def __init__(self, search: Search, whole: Outcome) -> None:
        self._search = search
        self._bench = search.bench
        self._whole = whole
        # Comparing costs most of the time, and says nothing of what fails before. What lowering did
        # wrong may be found by running.
        self._last = "compare" if whole.stage is None else "run"

    def smallest(self) -> Reduced:
        """The smallest program that is red for the reason of the whole."""
        found = self._first()
        tried = found
        while tried is not None:
            if (kept := self._window(*tried)) is not None:
                return kept
            tried = self._search.wider(tried) if self._whole.stage is None else None
        if found is not None:
            program = prefix(self._search.flow, found[0], self._search.calls, self._shapes)
            if (outcome := self._try(program)) is not None:
                nodes = self._search.flow.behind([found[0]], lambda source: False)
                note = "no part of it is red when it is fed the oracle's values"
                return self._keep(program, outcome, nodes, note)
        program = tapped(self._search.flow, (), self._search.calls, self._shapes)
        if (outcome := self._try(program)) is None:
            raise UsageError(
                f"{self._bench.cell} cannot be reduced: exported again from its own graph it is no "
                f"longer red for the same reason"
            )
        return self._keep(program, outcome, self._search.flow.nodes, "no part of it is as red")

    @property
    def _shapes(self) -> Any:
        return self._bench.case.dynamic_shapes

    def _first(self) -> tuple[Node, int] | None:
        """Where to look: the first wrong value, or the first node with which the program up to it
        fails as the whole one does."""
        if self._whole.stage is None:
            return self._search.first(self._whole)
        ends = self._search.known
        low, high = 0, len(ends) - 1
        found = None
        while low <= high:
            middle = (low + high) // 2
            self._bench.say(f"the program up to {ends[middle]}")
            calls = self._search.calls
            if self._try(prefix(self._search.flow, ends[middle], calls, self._shapes)):
                found, high = ends[middle], middle - 1
            else:
                low = middle + 1
        return None if found is None else (found, 0)

    def _window(self, end: Node, call: int) -> Reduced | None:
        """The nodes around a value that are as red as the whole when they are fed the oracle's."""
        windows = windows_at(self._search, call)
        for nodes in windows.around(end, _LEVELS):
            self._bench.say(f"{len(nodes)} nodes alone, fed the oracle's values")
            program = windows.program(nodes, end)
            if (outcome := self._try(program)) is not None:
                return self._keep(*self._without(windows, nodes, end, program, outcome))
        return None

    def _without(
        self,
        windows: Windows,
        nodes: Sequence[Node],
        end: Node,
        program: Program,
        outcome: Outcome,
    ) -> tuple[Program, Outcome, Sequence[Node]]:
        """The window without the nodes that it does not take."""
        kept = list(nodes)
        attempts = 0
        for node in nodes:
            # What is made of a node that goes is handed in instead, so what it is made of goes too.
            behind = set(self._search.flow.behind([node], lambda source: False))
            fewer = [each for each in kept if each not in behind]
            if end not in fewer or len(fewer) == len(kept) or attempts >= _ATTEMPTS:
                continue
            attempts += 1
            self._bench.say(f"{len(fewer)} nodes alone, without {node}")
            smaller = windows.program(fewer, end)
            if (tried := self._try(smaller)) is not None:
                kept, program, outcome = fewer, smaller, tried
        return program, outcome, kept

    def _try(self, program: Program) -> Outcome | None:
        """What becomes of a program, if it is red for the reason of the whole."""
        outcome = self._bench.attempt(program, last=self._last)
        return outcome if outcome.is_red and outcome.reason == self._whole.reason else None

    def _keep(
        self, program: Program, outcome: Outcome, nodes: Sequence[Node], note: str = ""
    ) -> Reduced:
        return _reduced(
            self._bench,
            self._whole,
            outcome,
            self._bench.case_of(program, f"{self._bench.case.name}/reduced"),
            self._bench.plain,
            nodes=[node for node in nodes if node.op == "call_function"],
            total=sum(node.op == "call_function" for node in self._search.flow.nodes),
            note="; ".join(text for text in (note, self._search.note) if text),
        )


def _reduced(
    bench: Bench,
    whole: Outcome,
    outcome: Outcome,
    case: Case,
    recipe: Recipe,
    *,
    nodes: Sequence[Node] = (),
    total: int = 0,
    note: str = "",
) -> Reduced:
    return Reduced(
        cell=bench.cell,
        case=case,
        target=bench.target,
        seed=bench.seed,
        recipe=recipe,
        nodes=tuple(node.name for node in nodes),
        operators=operators(nodes),
        stage=outcome.stage or "compare",
        problem=outcome.problem or "",
        original=whole.problem or "",
        total=total,
        programs=bench.programs,
        note=note,
    )
