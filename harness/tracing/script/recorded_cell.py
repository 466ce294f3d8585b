"""A cell on its way into a script: what is written of it, however far it comes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.fx import GraphModule

from harness.errors import StageFailure, UsageError, describe
from harness.numerics.oracle import Reference
from harness.pipeline import stages
from harness.pipeline.tester import Tester
from harness.tracing.trial import Bench
from harness.vendors.torch import tree_leaves


@dataclass
class Seen:
    """A cell as it was taken through its stages.

    Attributes:
        bench: of the cell.
        tester: it, as far as it came.
        graph: the ATen program; float where the recipe quantizes with PT2E.
        stage: the stage that failed, or None.
        error: what it said.
        problem: what is wrong, or None.
        reference: what its values should be; None where it was not made.
        runs: how many calls were made; the last input comes again where state is observed.
    """

    bench: Bench
    tester: Tester
    graph: GraphModule
    stage: str | None = None
    error: str = ""
    problem: str | None = None
    reference: Reference | None = None
    runs: int = 1

    @classmethod
    def of(cls, bench: Bench) -> Seen:
        """Take a cell as far as it goes.

        Raises:
            UsageError: it has no graph, or nothing to compare with.
        """
        recipe = bench.recipe
        if (exporter := bench.case.exporter) is not None:
            raise UsageError(
                f"{bench.cell} is a program of {exporter.name}; a script lowers a graph itself, "
                f"and would show another one"
            )
        try:
            tester = Tester(
                bench.case, bench.target, seed=bench.seed, recipe=recipe, backend=bench.backend
            )
            if (reason := recipe.unsupported(bench.case, tester.built)) is not None:
                raise UsageError(f"{bench.cell} is unsupported, and shows nothing: {reason}")
            if recipe.quantize_weights is not None:
                tester.quantize_weights()
            tester.export()
        except StageFailure as failure:
            raise UsageError(
                f"{bench.cell} has no graph to write: it ends with {failure}; what does not export "
                f"is shown by the module's own code"
            ) from failure
        graph = stages.flatten(tester.exported)
        seen = cls(bench, tester, graph, runs=len(tester.built.calls))
        try:
            seen._follow()
        except StageFailure as failure:
            if failure.stage == "reference":
                raise UsageError(f"{bench.cell} has nothing to compare with: {failure}") from None
            seen.stage, seen.error = failure.stage, describe(failure.cause)
            seen.problem = str(failure)
        try:
            seen.reference = (tester if seen.stage is None else tester.refer()).reference
        except StageFailure:
            seen.reference = None  # a failure shows without
        return seen

    @property
    def calls(self) -> list[list[Any]]:
        """The flat inputs of each call of the case."""
        return [tree_leaves(inputs) for inputs in self.tester.built.calls]

    @property
    def observes_state(self) -> bool:
        """Whether the last call was made once more."""
        return self.runs > len(self.tester.built.calls)

    @property
    def phase(self) -> str | None:
        """The part of a script that fails: ``lower``, ``run`` or none."""
        if self.stage is None:
            return None
        return "lower" if self.stage in ("quantize", "lower") else "run"

    @property
    def crashes(self) -> bool:
        """Whether the process died that ran the program."""
        return "was ended by" in self.error

    @property
    def changed(self) -> list[int]:
        """Positions of the inputs that come back changed, in the order of the program's values."""
        if self.reference is None or not self.reference.places:
            return []
        return [place.index for place in self.reference.places[0] if place.role == "input"]

    @property
    def ours(self) -> str:
        """How this project's own code saw it, which is no part of the script; or empty."""
        script, state = self.bench.recipe.script, self.bench.backend.availability()
        return "" if state.runtime == "native" or script is None else script.ours

    def _follow(self) -> None:
        tester = self.tester
        if tester.recipe.quantizer is not None:
            tester.quantize()
        tester.lower().to_executorch().serialize()
        if self.bench.executes:
            tester.run()
            self.runs = len(tester.attempt.calls)
            self.problem = tester.compare().verdict.problem
        else:
            tester.refer()
