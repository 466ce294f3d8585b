"""Looking for a program that is judged wrong, and for the smallest one that still is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, assume, given, seed as seeded, settings
from hypothesis.errors import Flaky, Unsatisfiable
from hypothesis.strategies import SearchStrategy, booleans, builds, integers, just, lists, tuples

from harness.fuzzing.growing import RULES, grow
from harness.fuzzing.program import Program

STEPS = 20


@dataclass(frozen=True)
class Problem:
    """What is wrong with a program.

    Attributes:
        kind: what a smaller program must have in common with it.
        said: the problem in words.
        target: where, if it is a cell's.
    """

    kind: str
    said: str
    target: str = ""


@dataclass(frozen=True)
class Finding:
    """A program that is judged wrong, as small as it got.

    Attributes:
        program: the text.
        problem: what is wrong.
        tried: how many programs were judged until it, or a larger one, was found.
    """

    program: Program
    problem: Problem
    tried: int


Judge = Callable[[Program], "Problem | None"]


def programs(*, may_draw: bool = False, steps: int = STEPS) -> SearchStrategy[Program | None]:
    """Programs of up to some steps; None for choices that make none."""
    choice = integers(0, 17)
    gene = tuples(integers(0, len(RULES) - 1), choice, choice, choice)
    return builds(
        grow,
        lists(integers(0, 9), min_size=1, max_size=3),
        lists(gene, min_size=steps // 2, max_size=steps),  # on average far fewer else
        is_dynamic=booleans(),
        may_draw=just(may_draw),
    )


def search(
    judge: Judge,
    *,
    examples: int,
    seed: int = 0,
    may_draw: bool = False,
    patience: float = 60.0,
    until: float = float("inf"),
) -> tuple[Finding | None, int]:
    """Generate programs until one is judged wrong, then make it small.

    Args:
        judge: says what is wrong with a program; it may raise nothing.
        examples: how many programs to try.
        seed: of the programs.
        may_draw: let them draw random numbers.
        patience: seconds to make it small in.
        until: when to stop looking, as ``time.monotonic`` has it.

    Returns:
        What was found, or None; and how many programs were judged before.
    """
    looking = _Looking(judge, patience, until)

    @seeded(seed)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(programs(may_draw=may_draw))
    def look(program: Program | None) -> None:
        assume(program is not None)
        assert program is not None
        looking(program)

    try:
        look()
    except (_Wrong, Flaky):
        pass
    except Unsatisfiable:
        return None, looking.tried
    return looking.best, looking.tried


class _Wrong(Exception):
    pass


class _Looking:
    """Judges each program once; once one is wrong, only those that are wrong alike count."""

    def __init__(self, judge: Judge, patience: float, until: float) -> None:
        self._judge = judge
        self._patience = patience
        self._until = until
        self._known: dict[str, Problem | None] = {}
        self.best: Finding | None = None
        self.tried = 0

    def __call__(self, program: Program) -> None:
        name = program.name
        if name not in self._known:
            self._known[name] = self._ask(program)
        if self._known[name] is not None:
            raise _Wrong

    def _ask(self, program: Program) -> Problem | None:
        if time.monotonic() > self._until:
            return None
        problem = self._judge(program)
        if self.best is None:
            self.tried += 1
            if problem is not None:
                self._until = time.monotonic() + self._patience
        elif problem is not None and problem.kind != self.best.problem.kind:
            return None
        if problem is not None and (self.best is None or _size(program) < _size(self.best.program)):
            self.best = Finding(program, problem, self.tried)
        return problem


def _size(program: Program) -> tuple[int, int, bool, int]:
    return (
        program.ops, len(program.inputs) + len(program.state), program.is_dynamic,
        len(program.source),
    )  # fmt: skip
