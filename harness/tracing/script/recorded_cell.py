"""Takes a cell through its stages and keeps everything that its script contains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.fx import GraphModule

from harness.errors import StageFailure, UsageError, describe
from harness.numerics.oracle import Reference
from harness.pipeline import stages
from harness.pipeline.tester import Tester
from harness.tracing.trial import TrialRunner
from harness.vendors.torch import tree_leaves


@dataclass
class RecordedCell:
    """A cell that was taken through its stages, as far as they succeed.

    Attributes:
        runner: runs the cell.
        tester: the tester, as far as it came.
        graph: the ATen program; float where the recipe quantizes with PT2E.
        stage: the failed stage, or None.
        error: error message of that stage.
        problem: the failed comparison or error, or None.
        is_joint: whether only all errors of an output together exceed their limit.
        reference: the expected values; None where they could not be computed.
        runs: number of calls; the last input is repeated where state is observed.
    """

    runner: TrialRunner
    tester: Tester
    graph: GraphModule
    stage: str | None = None
    error: str = ""
    problem: str | None = None
    is_joint: bool = False
    reference: Reference | None = None
    runs: int = 1

    @classmethod
    def capture(cls, runner: TrialRunner) -> RecordedCell:
        """Take a cell as far through its stages as it goes.

        Raises:
            UsageError: it has no graph, or nothing to compare with.
        """
        recipe = runner.recipe
        if (exporter := runner.case.exporter) is not None:
            raise UsageError(
                f"{runner.cell} is a program of {exporter.name}; a script lowers the graph itself "
                f"and would show a different program"
            )
        try:
            tester = Tester(
                runner.case, runner.target, seed=runner.seed, recipe=recipe, backend=runner.backend
            )
            if (reason := recipe.unsupported(runner.case, tester.built)) is not None:
                raise UsageError(
                    f"{runner.cell} is unsupported; there is no defect to show: {reason}"
                )
            if recipe.quantize_weights is not None:
                tester.quantize_weights()
            tester.export()
        except StageFailure as failure:
            raise UsageError(
                f"{runner.cell} has no graph to write: it ends with {failure}; use the module's "
                f"own code to show a failure of export"
            ) from failure
        graph = stages.flatten(tester.exported)
        seen = cls(runner, tester, graph, runs=len(tester.built.calls))
        try:
            seen._run_stages()
        except StageFailure as failure:
            if failure.stage == "reference":
                raise UsageError(f"{runner.cell} has nothing to compare with: {failure}") from None
            seen.stage, seen.error = failure.stage, describe(failure.cause)
            seen.problem = str(failure)
        try:
            seen.reference = (
                tester if seen.stage is None else tester.compute_reference()
            ).reference
        except StageFailure:
            seen.reference = None  # a failure needs no reference
        return seen

    @property
    def calibration(self) -> list[list[Any]]:
        """The flat inputs that calibrate a quantizer; empty for those of the calls."""
        return [tree_leaves(inputs) for inputs in self.tester.built.calibration]

    @property
    def calls(self) -> list[list[Any]]:
        """The flat inputs of each call of the case."""
        return [tree_leaves(inputs) for inputs in self.tester.built.calls]

    @property
    def observes_state(self) -> bool:
        """Whether the last call is repeated to observe state."""
        return self.runs > len(self.tester.built.calls)

    @property
    def failing_phase(self) -> str | None:
        """The part of the script that fails: ``lower``, ``run`` or None."""
        if self.stage is None:
            return None
        return "lower" if self.stage in ("quantize", "lower") else "run"

    @property
    def is_crash(self) -> bool:
        """Whether the process that ran the program died."""
        return "was ended by" in self.error

    @property
    def changed_inputs(self) -> list[int]:
        """Positions of the inputs that the program changes, in the order of its values."""
        if self.reference is None or not self.reference.places:
            return []
        return [place.index for place in self.reference.places[0] if place.role == "input"]

    @property
    def runtime_note(self) -> str:
        """How this project executed the program instead of the native runtime; empty where it did
        not.
        """
        script, state = self.runner.recipe.script, self.runner.backend.availability()
        return "" if state.runtime == "native" or script is None else script.ours

    def _run_stages(self) -> None:
        tester = self.tester
        if tester.recipe.quantizer is not None:
            tester.quantize()
        tester.lower().to_executorch().serialize()
        if self.runner.can_execute:
            tester.run()
            self.runs = len(tester.attempt.calls)
            verdict = tester.compare().verdict
            self.problem = verdict.problem
            wrong = [each for each in verdict.numerics if each.problem is not None]
            self.is_joint = bool(wrong) and not any(each.exceeding for each in wrong)
        else:
            tester.compute_reference()
