"""Looking for a program that is judged wrong: hypothesis chooses; what it found is made small."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, assume, given, seed as seeded, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import SearchStrategy, booleans, builds, integers, just, lists, tuples

from harness.extras.fuzzing.generate import RULES, grow
from harness.extras.fuzzing.generated_program import Program
from harness.extras.fuzzing.shrink import reduce

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
    patience: float = 120.0,
    until: float = math.inf,
) -> tuple[Finding | None, int]:
    """Generate programs until one is judged wrong, then make it small.

    Args:
        judge: says what is wrong with a program; it raises nothing.
        examples: how many programs to try.
        seed: of the programs.
        may_draw: let them draw random numbers.
        patience: seconds to make it small in.
        until: when to stop looking, as ``time.monotonic`` has it.

    Returns:
        What was found, or None; and how many programs were judged before.
    """
    judged: dict[str, Problem | None] = {}

    @seeded(seed)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(programs(may_draw=may_draw))
    def look(program: Program | None) -> None:
        assume(program is not None)
        assert program is not None
        if program.name not in judged and time.monotonic() < until:
            judged[program.name] = judge(program)
        problem = judged.get(program.name)
        if problem is not None:
            raise _Wrong(program, problem)

    try:
        look()
    except _Wrong as wrong:
        large, problem = wrong.args
    except Unsatisfiable:
        return None, len(judged)
    else:
        return None, len(judged)
    tried, soon = len(judged), time.monotonic() + patience

    def still_wrong(program: Program) -> bool:
        if time.monotonic() > soon:
            return False
        if program.name not in judged:
            judged[program.name] = judge(program)
        found = judged[program.name]
        return found is not None and found.kind == problem.kind

    small = reduce(large, still_wrong)
    return Finding(small, judged[small.name] or problem, tried), tried


class _Wrong(Exception):
    """A program, and what is wrong with it."""
