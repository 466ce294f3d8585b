"""Searches for a program that is judged wrong: hypothesis generates programs, then it is shrunk."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, assume, given, seed as seeded, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import SearchStrategy, booleans, builds, integers, just, lists, tuples

from harness.extras.fuzzing.generate import RULES, build_program
from harness.extras.fuzzing.generated_program import GeneratedProgram
from harness.extras.fuzzing.shrink import shrink

STEPS = 20


@dataclass(frozen=True)
class Problem:
    """A problem of a program.

    Attributes:
        kind: category that a smaller program must share.
        message: the problem in words.
        target: the target, if the problem is a cell's.
    """

    kind: str
    message: str
    target: str = ""


@dataclass(frozen=True)
class Finding:
    """A wrong program after shrinking.

    Attributes:
        program: the program.
        problem: its problem.
        tried: number of programs judged until it, or a larger version, was found.
    """

    program: GeneratedProgram
    problem: Problem
    tried: int


Judge = Callable[[GeneratedProgram], "Problem | None"]


def generate_programs(
    *, may_draw: bool = False, steps: int = STEPS
) -> SearchStrategy[GeneratedProgram | None]:
    """Return a strategy for programs of up to ``steps`` steps; None for choices that make no
    program.
    """
    number = integers(0, 17)
    choice = tuples(integers(0, len(RULES) - 1), number, number, number)
    return builds(
        build_program,
        lists(integers(0, 9), min_size=1, max_size=3),
        lists(
            choice, min_size=steps // 2, max_size=steps
        ),  # without a minimum, programs are much shorter
        is_dynamic=booleans(),
        may_draw=just(may_draw),
    )


def find_wrong_program(
    judge: Judge,
    *,
    examples: int,
    seed: int = 0,
    may_draw: bool = False,
    shrink_seconds: float = 120.0,
    until: float = math.inf,
) -> tuple[Finding | None, int]:
    """Generate programs until one is judged wrong, then shrink it.

    Args:
        judge: returns the problem of a program, or None; must not raise.
        examples: number of programs to try.
        seed: seed of the programs.
        may_draw: whether programs may draw random numbers.
        shrink_seconds: time limit for shrinking.
        until: when to stop searching, in ``time.monotonic`` seconds.

    Returns:
        The finding, or None; and the number of programs judged before it.
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
    @given(generate_programs(may_draw=may_draw))
    def check(program: GeneratedProgram | None) -> None:
        assume(program is not None)
        assert program is not None
        if program.name not in judged and time.monotonic() < until:
            judged[program.name] = judge(program)
        problem = judged.get(program.name)
        if problem is not None:
            raise _Wrong(program, problem)

    try:
        check()
    except _Wrong as wrong:
        large, problem = wrong.args
    except Unsatisfiable:
        return None, len(judged)
    else:
        return None, len(judged)
    return shrink_finding(Finding(large, problem, len(judged)), judge, shrink_seconds), len(judged)


def shrink_finding(found: Finding, judge: Judge, seconds: float = 120.0) -> Finding:
    """Return the finding with the smallest program that is wrong in the same way.

    Args:
        found: a finding.
        judge: what judged its program.
        seconds: time limit.
    """
    deadline = time.monotonic() + seconds
    judged: dict[str, Problem | None] = {found.program.name: found.problem}

    def is_still_wrong(program: GeneratedProgram) -> bool:
        if time.monotonic() > deadline:
            return False
        if program.name not in judged:
            judged[program.name] = judge(program)
        problem = judged[program.name]
        return problem is not None and problem.kind == found.problem.kind

    small = shrink(found.program, is_still_wrong)
    return Finding(small, judged[small.name] or found.problem, found.tried)


class _Wrong(Exception):
    """Carries a wrong program and its problem."""
