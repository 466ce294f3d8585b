"""Runs programs made of a case's graph on one target, lowered as its recipe lowers."""

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
from harness.pipeline.reference.intermediate import find_changed_form
from harness.pipeline.route import find_unsupported_reason, lower, prepare
from harness.pipeline.tester import Tester
from harness.record.cell import Numerics
from harness.record.target import Target, cell_id
from harness.tracing.programs import ProbeProgram

ProgressCallback = Callable[[str], None]
"""Called with a line of text for each step."""


@dataclass(frozen=True)
class TrialResult:
    """The result of one program.

    Attributes:
        tester: the tester, as far as it came; None where the case was not even built.
        stage: the failed stage; None where all requested stages succeeded.
        error: error message of that stage.
        verdict: result of the comparison, if it was reached.
    """

    tester: Tester | None
    stage: str | None = None
    error: str | None = None
    verdict: Verdict | None = None

    @property
    def numerics(self) -> list[Numerics]:
        """The compared values; empty if the comparison was not reached."""
        return self.verdict.numerics if self.verdict is not None else []

    @property
    def is_red(self) -> bool:
        """Whether a stage failed or a compared value is wrong."""
        return self.stage is not None or (self.verdict is not None and not self.verdict.passed)

    @property
    def problem(self) -> str | None:
        """The failed stage with its error, or the failed comparison; None for a green program."""
        if self.stage is not None:
            return f"{self.stage}: {self.error}"
        return self.verdict.problem if self.verdict is not None else None

    @property
    def signature(self) -> tuple[str, str]:
        """The failed stage and its error without numbers.

        Two programs are red for the same reason when these are equal. All mismatches are equal.
        """
        return (self.stage or "compare", mask_numbers(self.error or ""))


def mask_numbers(text: str) -> str:
    """Replace the parts of a message that differ between programs: numbers, also those in names."""
    return re.sub(r"(0x[0-9a-f]+|\d+)", "#", re.sub(r"(_\d+)+\b", "", text))


class TrialRunner:
    """Runs a case, and programs made of its graph, on one target.

    Attributes:
        programs_tried: number of programs that were tried.
    """

    def __init__(
        self,
        case: Case,
        target: Target | str,
        seed: int = 0,
        recipe: Recipe | None = None,
        backend: Backend | None = None,
        on_progress: ProgressCallback | None = None,
        *,
        isolate: bool = False,
        seconds: float | None = None,
    ) -> None:
        """Look up the target.

        Args:
            case: the case.
            target: ``backend:recipe``.
            seed: run seed.
            recipe: replaces the recipe that the target names.
            backend: replaces the backend that the target names.
            on_progress: called with a line of text for each step.
            isolate: execute in a child process where the runtime is native, so that a crash is a
                failure of stage ``run``; only for a registered backend.
            seconds: time limit for all programs together; None for no limit.

        Raises:
            UnknownTarget: no such backend or recipe.
            ConflictingOptions: the case draws random numbers.
            UsageError: nothing on this host lowers for the target.
        """
        self.case = case
        self.target = Target.parse(target) if isinstance(target, str) else target
        self.seed = seed
        self.backend = backend or registry.backend(self.target.backend)
        self.recipe = recipe or registry.recipe(self.target, self.backend)
        self.on_progress: ProgressCallback = on_progress or (lambda line: None)
        self.programs_tried = 0
        self._begun = time.monotonic()
        self._seconds = math.inf if seconds is None else seconds
        self._longest = 0.0
        if case.random_outputs:
            raise ConflictingOptions(
                f"{self.cell}: random numbers that a module draws are compared by their "
                f"distribution; single values cannot be compared"
            )
        state = self.backend.availability()
        if not state.available and not state.can_lower:
            raise UsageError(f"{self.target} is not available here: {state.reason}")
        # Other runtimes execute in Python, or in their own child process.
        if isolate and backend is None and state.runtime == "native":
            self.backend = _IsolatedBackend(self.backend)
        self.can_execute = state.available
        self.unavailable_reason = state.reason

    @property
    def cell(self) -> str:
        """``case@backend:recipe``."""
        return cell_id(self.case.name, self.target)

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since this object was created."""
        return time.monotonic() - self._begun

    @property
    def has_time(self) -> bool:
        """Whether another program would end in time if it took as long as the longest so far."""
        return self.elapsed_seconds + self._longest <= self._seconds

    @property
    def program_recipe(self) -> Recipe:
        """The recipe for programs whose dtype and quantization are already fixed."""
        return replace(
            self.recipe,
            dtype="float32",
            quantizer=None,
            quantize_weights=None,
            require_delegation=False,
            verify=None,
            encodings=None,
            # It checks the module to quantize, and was already asked about the case.
            unsupported=lambda case, built: None,
        )

    def run_case(self) -> TrialResult:
        """Run the case itself."""
        return self.try_case(self.case, self.recipe, "compare")

    def accept_finished(self, tester: Tester) -> TrialResult:
        """Use a finished run of the case itself."""
        self.note_duration(tester)
        return TrialResult(tester, verdict=tester.verdict)

    def note_duration(self, tester: Tester) -> None:
        """Expect programs to take as long as a tester took."""
        self._longest = sum(tester.seconds.values())

    def try_program(
        self, program: ProbeProgram, *, last: str = "compare", recipe: Recipe | None = None
    ) -> TrialResult:
        """Try a program made of the case's graph.

        Args:
            program: the program.
            last: last stage to run: ``quantize``, ``lower``, ``run`` or ``compare``.
            recipe: lowers the program; by default :attr:`program_recipe`.
        """
        return self.try_case(self.make_case(program), recipe or self.program_recipe, last)

    def make_case(self, program: ProbeProgram, name: str = "") -> Case:
        """Return a program as a case. It has the case's own name, so that its random numbers are
        the same.
        """
        first, *further = program.calls
        return Case(
            name or self.case.name,
            lambda: (program.module, *arguments(first)),
            dynamic_shapes=program.dynamic_shapes,
            calls=(lambda: further) if further else None,
        )

    def get_graph(self, tester: Tester) -> GraphModule:
        """Return the ATen program that a tester lowers, as a module: quantized if the recipe
        quantizes.
        """
        module = tester.reference_module
        quantizes = self.recipe.quantizer is not None or self.recipe.quantize_weights is not None
        if quantizes and isinstance(module, GraphModule):
            return module
        return tester.flatten_exported()

    def try_case(self, case: Case, recipe: Recipe, last: str) -> TrialResult:
        """Take a case through its stages. Never raises for a failure of the case or the backend."""
        self.programs_tried += 1
        begun = self.elapsed_seconds
        try:
            return self._run_stages(case, recipe, last)
        finally:
            self._longest = max(self._longest, self.elapsed_seconds - begun)

    def _run_stages(self, case: Case, recipe: Recipe, last: str) -> TrialResult:
        tester: Tester | None = None
        try:
            tester = Tester(case, self.target, seed=self.seed, recipe=recipe, backend=self.backend)
            if (reason := find_unsupported_reason(tester)) is not None:
                return TrialResult(tester, UNSUPPORTED, reason)
            if last == "quantize":
                prepare(tester)
                return _check_unchanged(tester) or TrialResult(tester)
            # The traced cell was executed with these sizes.
            lower(tester, sizes=case is self.case and self.can_execute)
            if (wrong := _find_unmet_requirement(tester)) is not None:
                return TrialResult(tester, REQUIREMENT, wrong)
            if not self.can_execute or last == "lower":
                return TrialResult(tester)
            tester.run()
            verdict = tester.compare().verdict if last == "compare" else None
        except StageFailure as failure:
            return TrialResult(tester, failure.stage, describe(failure.cause))
        return TrialResult(tester, verdict=verdict)


class _IsolatedBackend:
    """A registered backend that executes in a child process."""

    def __init__(self, backend: Backend) -> None:
        self.name = backend.name
        self.recipes = backend.recipes
        self.availability = backend.availability

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        return foreign_programs.execute(self.name, program, calls)


def _check_unchanged(tester: Tester) -> TrialResult | None:
    """Return the result of a program that was changed before it was quantized; None for others."""
    changed = find_changed_form(tester.intermediates)
    return None if changed is None else TrialResult(tester, *changed)


UNSUPPORTED, REQUIREMENT = "unsupported", "requirement"
"""Values of ``TrialResult.stage`` where the recipe refuses the program, not an operator."""


def _find_unmet_requirement(tester: Tester) -> str | None:
    """Return the requirement of its recipe that a lowered program does not meet, or None."""
    if tester.recipe.require_delegation and tester.delegation.is_empty:
        return "nothing was delegated, and the target requires delegation"
    with tester.attribute_errors("lower"):
        return tester.recipe.verify(tester.serialized) if tester.recipe.verify is not None else None
