"""Search guided by coverage: programs that execute lowering code which nothing else does are varied
further.

A program that executes a branch for the first time is kept, as greybox fuzzers do (M. Zalewski,
*american fuzzy lop*, technical whitepaper, 2013). Half of the following programs are variations of
kept ones. The code that cells of a recorded run execute counts as known.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from harness.coverage.coverage_map import Arc, list_lines
from harness.coverage.recorder import ArcRecorder
from harness.extras.fuzzing.generate import RULES, StepChoice, build_program
from harness.extras.fuzzing.generated_program import GeneratedProgram
from harness.extras.fuzzing.search import STEPS, Finding, Judge, Problem, shrink_finding
from harness.extras.fuzzing.shrink import shrink

_LARGEST = 17
_SHARE_OF_VARIATIONS = 0.5
_SHRINK_SECONDS = 30.0

Places = dict[str, set[int]]
"""Lines, by name of the file."""


@dataclass(frozen=True)
class ProgramChoices:
    """The choices that a program is built from.

    Attributes:
        forms: dtype and shape of its inputs, as indices.
        steps: the steps to add.
        is_dynamic: make the first dimension of its first input dynamic.
    """

    forms: tuple[int, ...]
    steps: tuple[StepChoice, ...]
    is_dynamic: bool

    def build(self, *, may_draw: bool) -> GeneratedProgram | None:
        """Return the program; None if it does nothing."""
        return build_program(self.forms, self.steps, is_dynamic=self.is_dynamic, may_draw=may_draw)


@dataclass(frozen=True)
class ReachingProgram:
    """A program that is not red, after shrinking, and the lines that it is the first to execute."""

    program: GeneratedProgram
    places: Places


class NewCode:
    """Finds what a program is the first to execute.

    Args:
        known: arcs that are known from the start, by name of the file.
    """

    def __init__(self, known: Mapping[str, set[Arc]]) -> None:
        self._known = {name: set(arcs) for name, arcs in known.items()}
        self._lines = {name: list_lines(arcs) for name, arcs in known.items()}
        self._recorder = ArcRecorder()

    def execute(self, run: Callable[[], Problem | None]) -> tuple[Problem | None, Places, bool]:
        """Run a program under the recorder.

        Code that only the first of two runs executes is behind a cache or an import, and no merit
        of the program.

        Returns:
            The run's result, new lines, and whether any branch is new.
        """
        problem, executed = self._record(run)
        new = self._find_new(executed)
        if not new:
            return problem, {}, False
        _, again = self._record(run)
        kept = {name: arcs & again.get(name, set()) for name, arcs in new.items()}
        places = {
            name: lines - self._lines.get(name, set())
            for name, arcs in kept.items()
            if (lines := list_lines(arcs)) - self._lines.get(name, set())
        }
        for name, arcs in new.items():
            self._known.setdefault(name, set()).update(arcs)
            self._lines.setdefault(name, set()).update(list_lines(arcs))
        return problem, places, any(kept.values())

    def reaches(self, run: Callable[[], Problem | None], places: Places) -> bool:
        """Whether a run has no problem and executes all these lines."""
        problem, executed = self._record(run)
        return problem is None and all(
            lines <= list_lines(executed.get(name, set())) for name, lines in places.items()
        )

    def _record(
        self, run: Callable[[], Problem | None]
    ) -> tuple[Problem | None, dict[str, set[Arc]]]:
        self._recorder.start()
        try:
            problem = run()
        finally:
            executed = self._recorder.stop()
        return problem, executed

    def _find_new(self, executed: Mapping[str, set[Arc]]) -> dict[str, set[Arc]]:
        new = {name: arcs - self._known.get(name, set()) for name, arcs in executed.items()}
        return {name: arcs for name, arcs in new.items() if arcs}


class GuidedSearch:
    """Generates programs, and varies those that execute new code.

    Args:
        judge: returns the problem of a program, or None; must not raise.
        code: knows what is executed already.
        seed: seed of the programs.
        may_draw: whether programs may draw random numbers.
        reports_new_code: return programs that are the first to execute some lines, after shrinking.

    Attributes:
        tried: number of programs so far.
    """

    def __init__(
        self,
        judge: Judge,
        code: NewCode,
        seed: int,
        *,
        may_draw: bool = False,
        reports_new_code: bool = True,
    ) -> None:
        self._judge, self._code, self._may_draw = judge, code, may_draw
        self._reports_new_code = reports_new_code
        self._random = random.Random(seed)
        self._kept: list[ProgramChoices] = []
        self._seen: set[str] = set()
        self.tried = 0

    def try_next(self) -> Finding | ReachingProgram | None:
        """Try one more program.

        Returns:
            A finding, if the program is red; the program, if it is the first to execute some lines
            and these are reported; else None. Both are shrunk.
        """
        choices = self._choose()
        program = choices.build(may_draw=self._may_draw)
        if program is None or program.name in self._seen:
            return None
        self._seen.add(program.name)
        self.tried += 1
        problem, places, is_new = self._code.execute(lambda: self._judge(program))
        if problem is not None:
            return shrink_finding(Finding(program, problem, self.tried), self._judge)
        if is_new:
            self._kept.append(choices)
        if not (places and self._reports_new_code):
            return None
        return ReachingProgram(self._shrink(program, places), places)

    def _choose(self) -> ProgramChoices:
        if self._kept and self._random.random() < _SHARE_OF_VARIATIONS:
            # The newest have had the fewest variations.
            newest = self._kept[-20:] if self._random.random() < 0.5 else self._kept
            return vary(self._random.choice(newest), self._kept, self._random)
        return draw_choices(self._random)

    def _shrink(self, program: GeneratedProgram, places: Places) -> GeneratedProgram:
        deadline = time.monotonic() + _SHRINK_SECONDS

        def still_reaches(smaller: GeneratedProgram) -> bool:
            return time.monotonic() < deadline and self._code.reaches(
                lambda: self._judge(smaller), places
            )

        return shrink(program, still_reaches)


def draw_choices(source: random.Random) -> ProgramChoices:
    """Draw a program's choices, as :func:`harness.extras.fuzzing.search.generate_programs` does."""
    forms = tuple(source.randint(0, 9) for _ in range(source.randint(1, 3)))
    steps = tuple(_draw_step(source) for _ in range(source.randint(STEPS // 2, STEPS)))
    return ProgramChoices(forms, steps, source.random() < 0.5)


def vary(
    choices: ProgramChoices, others: list[ProgramChoices], source: random.Random
) -> ProgramChoices:
    """Return choices with one to three changes: of a number, of a step, of the inputs, or the end
    of another program in place of its own."""
    for _ in range(source.randint(1, 3)):
        steps = list(choices.steps)
        at = source.randrange(len(steps) + 1)
        match source.randrange(6):
            case 0 if at < len(steps):
                numbers = list(steps[at])
                position = source.randrange(1, 4)
                numbers[position] = source.randint(0, _LARGEST)
                steps[at] = (numbers[0], numbers[1], numbers[2], numbers[3])
            case 1 if len(steps) > 1:
                del steps[min(at, len(steps) - 1)]
            case 2 | 3:
                steps.insert(at, _draw_step(source))
            case 4:
                other = source.choice(others).steps
                steps = [*steps[:at], *other[source.randrange(len(other)) :]]
            case _:
                forms = tuple(source.randint(0, 9) for _ in choices.forms)
                choices = replace(choices, forms=forms, is_dynamic=source.random() < 0.5)
        choices = replace(choices, steps=tuple(steps[: 2 * STEPS]))
    return choices


def _draw_step(source: random.Random) -> StepChoice:
    first, second, third = (source.randint(0, _LARGEST) for _ in range(3))
    return source.randrange(len(RULES)), first, second, third
