"""Where programs made of a graph are tried: on one target, lowered as its recipe lowers."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch.fx import GraphModule

from harness.errors import ConflictingOptions, StageFailure, UsageError, describe
from harness.execution import foreign_programs
from harness.model import registry
from harness.model.backend import Backend, Execution
from harness.model.case import Case, Inputs, arguments
from harness.model.recipe import Recipe
from harness.numerics.compare import Verdict
from harness.pipeline import stages
from harness.pipeline.cell_run import changed_form
from harness.pipeline.route import lower, prepare, unsupported
from harness.pipeline.tester import Tester
from harness.record.cell import Numerics
from harness.record.target import Target, cell_id
from harness.tracing.programs import Program

Say = Callable[[str], None]
"""Hears what is being done, a line at a time."""


@dataclass(frozen=True)
class Outcome:
    """What became of a program.

    Attributes:
        tester: it, as far as it came; None where it was not even built.
        stage: the stage that failed; None where all that were asked for did their work.
        error: what it said.
        verdict: what the comparison found, where it came so far.
    """

    tester: Tester | None
    stage: str | None = None
    error: str | None = None
    verdict: Verdict | None = None

    @property
    def rows(self) -> list[Numerics]:
        """What was compared; nothing where it did not come so far."""
        return self.verdict.numerics if self.verdict is not None else []

    @property
    def is_red(self) -> bool:
        """Whether a stage failed, or a value that was compared is wrong."""
        return self.stage is not None or (self.verdict is not None and not self.verdict.passed)

    @property
    def problem(self) -> str | None:
        """What is wrong, or None."""
        if self.stage is not None:
            return f"{self.stage}: {self.error}"
        return self.verdict.problem if self.verdict is not None else None

    @property
    def reason(self) -> tuple[str, str]:
        """What has to be the same for two programs to be red for the same reason: the stage, and
        its error without numbers. Mismatches are all alike."""
        return (self.stage or "compare", masked(self.error or ""))


def masked(text: str) -> str:
    """A message without what differs between programs: numbers, and those in names."""
    return re.sub(r"(0x[0-9a-f]+|\d+)", "#", re.sub(r"(_\d+)+\b", "", text))


class Bench:
    """Takes a case, and programs made of its graph, to one target.

    Attributes:
        programs: how many were tried.
    """

    def __init__(
        self,
        case: Case,
        target: Target | str,
        seed: int = 0,
        recipe: Recipe | None = None,
        backend: Backend | None = None,
        say: Say | None = None,
        *,
        isolate: bool = False,
        seconds: float | None = None,
    ) -> None:
        """Look the target up.

        Args:
            case: what is tested.
            target: where and how.
            seed: run seed.
            recipe: used instead of the one that the target names.
            backend: used instead of the one that the target names.
            say: hears what is being done.
            isolate: execute in a child process where the runtime is native, so that a program that
                crashes fails in stage ``run`` and ends nobody; for a registered backend.
            seconds: what all programs together may take; None for no limit.

        Raises:
            UnknownTarget: no such backend or recipe.
            ConflictingOptions: the case draws random numbers.
            UsageError: nothing here lowers for the target.
        """
        self.case = case
        self.target = Target.parse(target) if isinstance(target, str) else target
        self.seed = seed
        self.backend = backend or registry.backend(self.target.backend)
        self.recipe = recipe or registry.recipe(self.target, self.backend)
        self.say: Say = say or (lambda line: None)
        self.programs = 0
        self._begun = time.monotonic()
        self._seconds = math.inf if seconds is None else seconds
        self._longest = 0.0
        if case.draws:
            raise ConflictingOptions(
                f"{self.cell}: what a module draws is compared by its distribution; no value of "
                f"it can be held against another"
            )
        state = self.backend.availability()
        if not state.available and not state.can_lower:
            raise UsageError(f"{self.target} is not available here: {state.reason}")
        # Others execute in Python, or in a child of their own.
        if isolate and backend is None and state.runtime == "native":
            self.backend = _Isolated(self.backend)
        self.executes = state.available
        self.unavailable = state.reason

    @property
    def cell(self) -> str:
        """``case@backend:recipe``."""
        return cell_id(self.case.name, self.target)

    @property
    def spent(self) -> float:
        """Seconds since it was made."""
        return time.monotonic() - self._begun

    @property
    def has_time(self) -> bool:
        """Whether another program ends in time, if it takes what the longest did."""
        return self.spent + self._longest <= self._seconds

    @property
    def plain(self) -> Recipe:
        """The recipe for a program whose dtype and quantization are settled."""
        return replace(
            self.recipe,
            dtype="float32",
            quantizer=None,
            quantize_weights=None,
            require_delegation=False,
            verify=None,
            encodings=None,
            # What it says is about a module to quantize, and was asked of the case.
            unsupported=lambda case, built: None,
        )

    def whole(self) -> Outcome:
        """The case itself."""
        return self.attempt_case(self.case, self.recipe, "compare")

    def resumed(self, tester: Tester) -> Outcome:
        """The case itself, as somebody else has just run it."""
        self.account(tester)
        return Outcome(tester, verdict=tester.verdict)

    def account(self, tester: Tester) -> None:
        """Expect programs to take what a tester took."""
        self._longest = sum(tester.seconds.values())

    def attempt(
        self, program: Program, *, last: str = "compare", recipe: Recipe | None = None
    ) -> Outcome:
        """A program made of the case's graph.

        Args:
            program: the program.
            last: ``quantize``, ``lower``, ``run`` or ``compare``, after which nothing more is of
                interest.
            recipe: how it is lowered; by default the plain one.
        """
        return self.attempt_case(self.case_of(program), recipe or self.plain, last)

    def case_of(self, program: Program, name: str = "") -> Case:
        """A program as a case; of the case's own name, so that its noise is the same."""
        first, *further = program.calls
        return Case(
            name or self.case.name,
            lambda: (program.module, *arguments(first)),
            dynamic_shapes=program.dynamic_shapes,
            calls=(lambda: further) if further else None,
        )

    def graph_of(self, tester: Tester) -> GraphModule:
        """The ATen program that a tester lowers, as a module: quantized where it was quantized."""
        module = tester.reference_module
        quantizes = self.recipe.quantizer is not None or self.recipe.quantize_weights is not None
        if quantizes and isinstance(module, GraphModule):
            return module
        return stages.flatten(tester.exported)

    def attempt_case(self, case: Case, recipe: Recipe, last: str) -> Outcome:
        """A case, taken as far as a stage. Never raises for what it or the backend does."""
        self.programs += 1
        begun = self.spent
        try:
            return self._taken(case, recipe, last)
        finally:
            self._longest = max(self._longest, self.spent - begun)

    def _taken(self, case: Case, recipe: Recipe, last: str) -> Outcome:
        tester: Tester | None = None
        try:
            tester = Tester(case, self.target, seed=self.seed, recipe=recipe, backend=self.backend)
            if (reason := unsupported(tester)) is not None:
                return Outcome(tester, UNSUPPORTED, reason)
            if last == "quantize":
                prepare(tester)
                return _rewritten(tester) or Outcome(tester)
            # The cell that is traced was executed at these.
            lower(tester, sizes=case is self.case and self.executes)
            if (wrong := _requirement(tester)) is not None:
                return Outcome(tester, REQUIREMENT, wrong)
            if not self.executes or last == "lower":
                return Outcome(tester)
            tester.run()
            verdict = tester.compare().verdict if last == "compare" else None
        except StageFailure as failure:
            return Outcome(tester, failure.stage, describe(failure.cause))
        return Outcome(tester, verdict=verdict)


class _Isolated:
    """A registered backend that executes in a child process."""

    def __init__(self, backend: Backend) -> None:
        self.name = backend.name
        self.recipes = backend.recipes
        self.availability = backend.availability

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        return foreign_programs.execute(self.name, program, calls)


def _rewritten(tester: Tester) -> Outcome | None:
    """The outcome of a program that was changed before it was quantized; None for others."""
    changed = changed_form(tester.intermediates)
    return None if changed is None else Outcome(tester, *changed)


UNSUPPORTED, REQUIREMENT = "unsupported", "requirement"
"""What stands for a stage where the recipe, not an operator, is what refuses."""


def _requirement(tester: Tester) -> str | None:
    """What of its recipe a lowered program does not hold, or None."""
    if tester.recipe.require_delegation and not tester.delegation.delegates:
        return "nothing was delegated, and the target requires delegation"
    with tester.attributed("lower"):
        return tester.recipe.verify(tester.shipped) if tester.recipe.verify is not None else None
