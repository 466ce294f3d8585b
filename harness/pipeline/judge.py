"""The stages after the program is there: execute it, compute what it should return, compare; and
look at what passes kept of it."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Self

import torch
from torch.export import ExportedProgram

from harness.errors import ConflictingOptions, StageFailure
from harness.execution.process_lock import exclusive
from harness.model.backend import Attempt, Backend, Emulating, Execution
from harness.model.case import Built, Case, Given, Inputs
from harness.model.precision import Precision
from harness.model.recipe import Lowered, Recipe
from harness.numerics.compare import Verdict, compare
from harness.numerics.distribution import compare_draws
from harness.numerics.module_runs import EagerRuns, run_calls
from harness.numerics.oracle import Reference, refer
from harness.passes.properties import Proof, properties
from harness.pipeline import stages
from harness.pipeline.artifacts import ArtifactReader, Ran
from harness.pipeline.dynamic_sizes.extra_calls import Sizes
from harness.pipeline.dynamic_sizes.refused_size import refused_size
from harness.pipeline.program_statistics import Stopwatch
from harness.pipeline.reference.alterations import Alterations
from harness.pipeline.reference.assumed_precision import float_precision, precision_of, semantics_of
from harness.pipeline.reference.calls import observing_state, writes_state
from harness.pipeline.reference.intermediate import Original, compare_form
from harness.pipeline.siblings import Siblings
from harness.pipeline.stage_clock import StageClock
from harness.pipeline.stages import flatten
from harness.record.cell import Intermediate, Property
from harness.vendors.torch import tree_leaves


class Judging(StageClock, ArtifactReader):
    """``run``, ``refer``, ``compare``, ``emulate`` and ``prove``.

    Attributes:
        case: what is tested.
        backend: where.
        recipe: how.
        built: module and inputs, seeded from (seed, case) alone and cast to the recipe's dtype.
        sizes: of the calls, where dimensions vary and :meth:`Tester.add_sizes` was called.
    """

    case: Case
    backend: Backend
    recipe: Recipe
    built: Built
    sizes: Sizes
    _alterations: Alterations
    _runs: EagerRuns
    _siblings: Siblings | None

    def run(self, calls: Sequence[Given] | None = None, *, steady: bool = False) -> Self:
        """Execute the serialized bytes for each call.

        Args:
            calls: defaults to the case's, and one more where the program has state, so that what
                the last call left behind is seen.
            steady: execute the first call a few more times when all is done, for its time alone;
                not where the program has state.
        """
        lowered: Lowered = self._artifacts.need("serialize", "run")
        chosen = calls
        if chosen is None:
            with exclusive(), self.attributed("reference"):
                chosen = observing_state(
                    self._runs, self.reference_module, self.exported, self.built.calls
                )
        with self.attributed("run"):
            chosen = [self.interface.arrange(inputs) for inputs in chosen]
            flat = self._flat(chosen)
        watch = Stopwatch()
        with (
            self._stage("run"),
            watch.listening(),
            self._naming_sizes(lowered, flat, calls is None),
        ):
            execution = self.backend.execute(lowered.data, flat)
        if steady and not writes_state(self.exported):
            with self._stage("steady"):
                watch.repeat()
        watch.let_go()
        self._artifacts.put("run", Ran(chosen, execution, watch))
        return self

    def refer(self, calls: Sequence[Given] | None = None) -> Self:
        """Compute what the outputs should be: of :attr:`reference_module`."""
        ran, module = self._artifacts.run, self.reference_module
        if calls is None:
            calls = self.built.calls if ran is None else ran.calls
        changed = () if self._artifacts.lower is None else self.interface.changed
        is_own, precision = module is self.built.module, self._precision()
        with self._stage("reference"):
            if is_own and self._siblings is not None and self.recipe.semantics is None:
                reference = self._siblings.refer(
                    self.case, self.built, calls, precision, self._runs, changed
                )
            else:
                reference = refer(
                    module,
                    calls,
                    precision,
                    self._runs.seed,
                    semantics_of(self.recipe),
                    changed=changed,
                    model=None if is_own else self.built.module,
                    runs=self._runs,
                )
            self._artifacts.put("refer", reference)
        return self

    def compare(self, reference: Reference | None = None) -> Self:
        """Judge the outputs; the verdict is a value, nothing is raised for a mismatch.

        Args:
            reference: used instead of the one that :meth:`refer` computes.
        """
        ran: Ran = self._artifacts.need("run", "compare")
        if reference is None and self._artifacts.refer is None and not self.case.draws:
            self.refer()
        verdict = self._judge(ran.calls, ran.execution, reference or self._artifacts.refer)
        self._artifacts.put("compare", verdict)
        return self

    def emulate(self) -> Verdict:
        """Judge what the backend's emulation computes for the same calls, after
        :meth:`compare`.

        Raises:
            ConflictingOptions: the backend has one runtime only.
        """
        lowered: Lowered = self._artifacts.need("serialize", "emulate")
        self._artifacts.need("compare", "emulate")
        if not isinstance(self.backend, Emulating):
            raise ConflictingOptions(f"{self.backend.name} has no emulation to compare with")
        ran: Ran = self._artifacts.need("run", "emulate")
        flat = self._flat(ran.calls)
        with self._stage("emulate"):
            execution = self.backend.emulate(lowered.data, flat)
        return self._judge(ran.calls, execution, self._artifacts.refer)

    def prove(self) -> list[Property]:
        """Look at what the passes that the target adds must keep of the program; nothing where it
        adds none."""
        rewriting = self.rewriting
        if rewriting is None:
            return []
        ran = self._artifacts.run
        calls = self.built.calls if ran is None else ran.calls
        calls = [self.interface.arrange(inputs) for inputs in calls]

        def bounds() -> Sequence[Sequence[torch.Tensor | None]]:
            return (self._artifacts.refer or self.refer(calls).reference).bound

        with self._stage("passes"):
            return properties(
                Proof(
                    rewriting,
                    [tree_leaves(inputs) for inputs in calls],
                    self.recipe.added,
                    self.case.changes,
                    None if self.case.draws else bounds,
                )
            )

    def is_export_wrong(self, call: int) -> bool:
        """Whether the exported program, run in eager PyTorch, is out of the bound in this call as
        well; after :meth:`compare`. False where that is not known."""
        ran: Ran = self._artifacts.need("run", "is_export_wrong")
        reference = self._artifacts.refer
        if reference is None or self.interface.changed:
            return False
        if self.reference_module is not self.built.module:
            return False  # the reference is the exported graph
        with self._stage("compare"):
            try:
                returned = run_calls(flatten(self.exported), ran.calls, self._runs.seed)
            except Exception:  # lowering may have taken constants out of the program
                return False
            outputs = [one.outputs for one in returned]
            verdict = compare(outputs, reference, interface=self.interface)
        return any(row.call == call and row.problem for row in verdict.numerics)

    @property
    def reference_module(self) -> torch.nn.Module:
        """What the reference is computed of: the module, or the graph in which its weights or
        activations are quantized, be it by the recipe or before they were given."""
        exported = self._artifacts.quantize or self._artifacts.export
        graph = None if exported is None else exported.graph
        return self.built.module if graph is None else graph

    @property
    def attempt(self) -> Attempt:
        """The cell as far as it came, once it is serialized."""
        ran, verdict = self._artifacts.run, self._artifacts.compare
        calls = self.built.calls if ran is None else ran.calls
        return Attempt(
            lowered=self.shipped,
            calls=self._flat([self.interface.arrange(inputs) for inputs in calls]),
            precision=self._precision(),
            semantics=semantics_of(self.recipe),
            seed=self._runs.seed,
            problem=None if verdict is None else verdict.problem,
            numerics=() if verdict is None else verdict.numerics,
        )

    @contextmanager
    def _naming_sizes(
        self, lowered: Lowered, flat: Sequence[Inputs], are_own: bool
    ) -> Iterator[None]:
        """Whatever is raised in here names the sizes that the program refuses, if it does.

        Args:
            lowered: the program.
            flat: inputs of each call.
            are_own: whether they are those of :attr:`built`.
        """
        try:
            yield
        except Exception as error:
            # A backend may find while running what an earlier stage did wrong.
            stage = error.stage if isinstance(error, StageFailure) else "run"
            cause = error.cause if isinstance(error, StageFailure) else error
            refusal = None
            if are_own and isinstance(cause, Exception):
                refusal = refused_size(
                    cause, self.sizes, flat, lambda calls: self.backend.execute(lowered.data, calls)
                )
            if refusal is None:
                raise
            raise StageFailure(stage, refusal) from error

    @contextmanager
    def _vendor(self, stage: str, call: str = "") -> Iterator[None]:
        """A stage that is a vendor's call: what it is given must be as it was afterwards.

        Args:
            stage: its name.
            call: the name of the call, where it is not that of the stage.
        """
        self._alterations.before_call()
        with self._stage(stage):
            yield
        with self.attributed(stage):
            self._alterations.after_call(call or stage)

    def _compare_forms(
        self, exported: ExportedProgram, prepared: torch.fx.GraphModule
    ) -> list[Intermediate]:
        """The rewritten float graph of a quantized program, compared with the module; where it
        differs, what torch.export made as well, which may have differed before."""
        built, in_spec = self.built, exported.call_spec.in_spec
        with self._stage("reference"), self.attributed("quantize"):
            calls = observing_state(self._runs, built.module, exported, built.calls)
            judge = None if self.case.draws else functools.partial(self._refer_float, calls)
            original = Original(built.module, calls, self._runs, judge, self.recipe.narrowed)
            paused = functools.partial(stages.unobserved, prepared)
            rewritten = compare_form("rewritten", prepared, in_spec, original, paused)
            if rewritten.problem is None:
                return [rewritten]
            plain = exported.module(check_guards=False)
            return [compare_form("exported", plain, in_spec, original), rewritten]

    def _refer_float(self, calls: Sequence[Given], changed: Collection[int]) -> Reference:
        """The reference of the module itself, where torch runs it."""
        module, runs = self.built.module, self._runs
        precision = float_precision(self.recipe)
        if self._siblings is not None and self.recipe.semantics is None:
            return self._siblings.refer(self.case, self.built, calls, precision, runs, changed)
        semantics = semantics_of(self.recipe)
        return refer(module, calls, precision, runs.seed, semantics, changed=changed, runs=runs)

    def _judge(
        self, calls: Sequence[Given], execution: Execution, reference: Reference | None
    ) -> Verdict:
        with self._stage("compare"):
            if reference is None:  # what a module draws has none
                return compare_draws(
                    self.built.module, calls, execution.outputs, self.interface, self._runs.seed
                )
            return compare(
                execution.outputs,
                reference,
                interface=self.interface,
                declared=self.shipped.program.outputs,
                narrowed=self.recipe.narrowed,
            )

    def _flat(self, calls: Sequence[Given]) -> list[Inputs]:
        return [self.shipped.program.arrange(tree_leaves(inputs)) for inputs in calls]

    def _precision(self) -> Precision:
        lowered = self._artifacts.lower
        delegation = None if lowered is None else lowered.delegation
        return precision_of(self.recipe, delegation, self.reference_module)
