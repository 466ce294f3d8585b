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
from harness.tracing.candidates import describe_operators
from harness.tracing.isolated_nodes import WINDOW_LEVELS, WindowBuilder
from harness.tracing.programs import ProbeProgram, build_prefix, build_tapped
from harness.tracing.search import DivergenceSearch
from harness.tracing.submodules import find_smallest_submodule
from harness.tracing.trace import make_windows, start_search
from harness.tracing.trial import (
    REQUIREMENT,
    UNSUPPORTED,
    ProgressCallback,
    TrialResult,
    TrialRunner,
)

# How many values back a window reaches before the whole prefix is used instead.
_LEVELS = (*WINDOW_LEVELS, 16)

# Maximum number of programs that omit single nodes.
_ATTEMPTS = 24

_CASE_STAGES = ("build", "reference")


@dataclass(frozen=True)
class ReducedProgram:
    """A small program that is red for the same reason as its cell.

    Attributes:
        cell: ``case@backend:recipe`` of the cell.
        case: the small program, with its inputs.
        target: the target.
        seed: run seed.
        recipe: the target's recipe without the steps that the program already went through.
        nodes: its nodes in the cell's graph; empty for a submodule.
        operators: the operators that they call.
        stage: ``compare``, or the stage that fails.
        problem: its problem: the failed comparison or error.
        original: the problem of the cell.
        total: number of nodes of the cell's graph; 0 where it has none.
        programs: number of programs that were tried.
        note: a remark for the reader; may be empty.
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
    on_progress: ProgressCallback | None = None,
    isolate: bool = True,
) -> ReducedProgram:
    """Shrink a red cell to the smallest part of its graph that is red for the same reason.

    The same reason is a value beyond its bound, or the same stage with the same error, numbers
    aside.

    A wrong value is traced to its first node, a failure is bisected to the first node with which
    the program still fails. From there, the nodes before it are added step by step, with the
    oracle's values as inputs, until the part is red.

    Args:
        case: the case.
        target: ``backend:recipe``.
        seed: run seed.
        recipe: replaces the recipe that the target names.
        backend: replaces the backend that the target names.
        on_progress: called with a line of text for each step.
        isolate: execute in a child process, so that a crash is a failure like any other.

    Raises:
        UsageError: the cell is green, or no part of its graph can be the reason.
    """
    runner = TrialRunner(case, target, seed, recipe, backend, on_progress, isolate=isolate)
    runner.on_progress("running the program as it is")
    whole = runner.run_case()
    if not whole.is_red:
        raise UsageError(f"{runner.cell} is green with seed {seed}: there is nothing to reduce")
    if whole.stage in (UNSUPPORTED, REQUIREMENT, *_CASE_STAGES) or whole.tester is None:
        raise UsageError(
            f"{runner.cell} cannot be reduced: it ends with {whole.problem}, which is not about "
            f"the operators of its graph"
        )
    if whole.stage in ("export", "quantize"):
        part = find_smallest_submodule(runner, whole)
        return _make_reduced(runner, whole, part.result, part.case, part.recipe, note=part.note)
    search = start_search(runner, whole)
    return _Reduction(search, whole).find_smallest()


class _Reduction:
    """One reduction of a graph."""

    def __init__(self, search: DivergenceSearch, whole: TrialResult) -> None:
        self._search = search
        self._runner = search.runner
        self._whole = whole
        # Comparing takes most of the time and is not needed for an earlier failure. Running is: it
        # may reveal an error of lowering.
        self._last = "compare" if whole.stage is None else "run"

    def find_smallest(self) -> ReducedProgram:
        """Return the smallest program that is red for the same reason as the whole."""
        found = self._find_start()
        tried = found
        while tried is not None:
            if (kept := self._try_windows(*tried)) is not None:
                return kept
            tried = self._search.find_earlier(tried) if self._whole.stage is None else None
        if found is not None:
            program = build_prefix(self._search.flow, found[0], self._search.calls, self._shapes)
            if (outcome := self._try(program)) is not None:
                nodes = self._search.flow.find_ancestors([found[0]], lambda source: False)
                note = "no part of it is red with exact inputs"
                return self._make_result(program, outcome, nodes, note)
        program = build_tapped(self._search.flow, (), self._search.calls, self._shapes)
        if (outcome := self._try(program)) is None:
            raise UsageError(
                f"{self._runner.cell} cannot be reduced: exported again from its own graph it is "
                f"no longer red for the same reason"
            )
        return self._make_result(
            program, outcome, self._search.flow.nodes, "no smaller part is red"
        )

    @property
    def _shapes(self) -> Any:
        return self._runner.case.dynamic_shapes

    def _find_start(self) -> tuple[Node, int] | None:
        """Return the first wrong value, or the first node up to which the program fails like the
        whole.
        """
        if self._whole.stage is None:
            return self._search.find_first(self._whole)
        ends = self._search.candidates
        low, high = 0, len(ends) - 1
        found = None
        while low <= high:
            middle = (low + high) // 2
            self._runner.on_progress(f"the program up to {ends[middle]}")
            calls = self._search.calls
            if self._try(build_prefix(self._search.flow, ends[middle], calls, self._shapes)):
                found, high = ends[middle], middle - 1
            else:
                low = middle + 1
        return None if found is None else (found, 0)

    def _try_windows(self, end: Node, call: int) -> ReducedProgram | None:
        """Return the smallest window around a value that is red with exact inputs."""
        windows = make_windows(self._search, call)
        for nodes in windows.grow(end, _LEVELS):
            self._runner.on_progress(f"{len(nodes)} nodes alone, with exact inputs")
            program = windows.build_program(nodes, end)
            if (outcome := self._try(program)) is not None:
                return self._make_result(*self._drop_nodes(windows, nodes, end, program, outcome))
        return None

    def _drop_nodes(
        self,
        windows: WindowBuilder,
        nodes: Sequence[Node],
        end: Node,
        program: ProbeProgram,
        outcome: TrialResult,
    ) -> tuple[ProbeProgram, TrialResult, Sequence[Node]]:
        """Remove the nodes that a window does not need."""
        kept = list(nodes)
        attempts = 0
        for node in nodes:
            # Values of removed nodes become inputs, so their predecessors are removed as well.
            behind = set(self._search.flow.find_ancestors([node], lambda source: False))
            fewer = [each for each in kept if each not in behind]
            if end not in fewer or len(fewer) == len(kept) or attempts >= _ATTEMPTS:
                continue
            attempts += 1
            self._runner.on_progress(f"{len(fewer)} nodes alone, without {node}")
            smaller = windows.build_program(fewer, end)
            if (tried := self._try(smaller)) is not None:
                kept, program, outcome = fewer, smaller, tried
        return program, outcome, kept

    def _try(self, program: ProbeProgram) -> TrialResult | None:
        """Return the result of a program if it is red for the same reason as the whole."""
        outcome = self._runner.try_program(program, last=self._last)
        return outcome if outcome.is_red and outcome.signature == self._whole.signature else None

    def _make_result(
        self, program: ProbeProgram, outcome: TrialResult, nodes: Sequence[Node], note: str = ""
    ) -> ReducedProgram:
        return _make_reduced(
            self._runner,
            self._whole,
            outcome,
            self._runner.make_case(program, f"{self._runner.case.name}/reduced"),
            self._runner.program_recipe,
            nodes=[node for node in nodes if node.op == "call_function"],
            total=sum(node.op == "call_function" for node in self._search.flow.nodes),
            note="; ".join(text for text in (note, self._search.note) if text),
        )


def _make_reduced(
    runner: TrialRunner,
    whole: TrialResult,
    outcome: TrialResult,
    case: Case,
    recipe: Recipe,
    *,
    nodes: Sequence[Node] = (),
    total: int = 0,
    note: str = "",
) -> ReducedProgram:
    return ReducedProgram(
        cell=runner.cell,
        case=case,
        target=runner.target,
        seed=runner.seed,
        recipe=recipe,
        nodes=tuple(node.name for node in nodes),
        operators=describe_operators(nodes),
        stage=outcome.stage or "compare",
        problem=outcome.problem or "",
        original=whole.problem or "",
        total=total,
        programs=runner.programs_tried,
        note=note,
    )
