"""The tester's stages after serialization: run, reference, compare, emulate, check passes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Self

import torch

from harness.errors import ConflictingOptions, StageFailure
from harness.execution.process_lock import hold_process_lock
from harness.model.backend import Backend, CanEmulate, Execution, InspectedCell
from harness.model.case import CallInputs, Inputs, arguments
from harness.model.precision import Precision
from harness.model.recipe import Lowered
from harness.numerics.compare import Verdict, compare
from harness.numerics.distribution import compare_draws
from harness.numerics.module_runs import run_calls
from harness.numerics.oracle import Reference
from harness.passes.properties import PassCheck, check_properties
from harness.pipeline.artifacts import RunArtifact
from harness.pipeline.dynamic_sizes.extra_calls import ExecutedSizes
from harness.pipeline.dynamic_sizes.refused_size import find_refused_size
from harness.pipeline.program_statistics import Stopwatch
from harness.pipeline.quantization.converted_layers import ConvertedLayers
from harness.pipeline.quantization.form_checks import FormChecks
from harness.pipeline.reference.alterations import AlterationCheck
from harness.pipeline.reference.assumed_precision import (
    add_runs,
    choose_precision,
    get_semantics,
)
from harness.pipeline.reference.calls import add_observing_calls, writes_state
from harness.pipeline.stages import flatten
from harness.record.cell import PassProperty
from harness.record.evidence import MetricValue, Quality
from harness.vendors.torch import tree_leaves


class ExecutionStages(FormChecks):
    """The tester's stages after serialization.

    Attributes:
        backend: the target's backend.
        quality: how far the quantized model is from the float model; None if not measured.
        sizes: sizes of the calls, where dimensions vary and :meth:`Tester.add_sizes` was called.
    """

    backend: Backend
    sizes: ExecutedSizes
    quality: Quality | None
    _alteration_check: AlterationCheck

    def run(self, calls: Sequence[CallInputs] | None = None, *, steady: bool = False) -> Self:
        """Execute the serialized bytes for each call.

        Args:
            calls: by default the case's calls, with the last one repeated where the program has
                state, so that the state after the last call shows.
            steady: execute the first call a few more times afterwards to time it; ignored where
                the program has state.
        """
        lowered: Lowered = self._artifacts.need("serialize", "run")
        chosen = calls
        if chosen is None:
            with hold_process_lock(), self.attribute_errors("reference"):
                chosen = add_observing_calls(
                    self._runs, self.reference_module, self.exported, self.built.calls
                )
        with self.attribute_errors("run"):
            chosen = [self.interface.arrange(inputs) for inputs in chosen]
            flat = self._flatten_calls(chosen)
        stopwatch = Stopwatch()
        with (
            self._stage("run"),
            stopwatch.time_executions(),
            self._add_refused_sizes(lowered, flat, calls is None),
        ):
            execution = self.backend.execute(lowered.data, flat)
        if steady and not writes_state(self.exported):
            with self._stage("steady"):
                stopwatch.repeat_first_call()
        stopwatch.release_program()
        self._artifacts.put("run", RunArtifact(chosen, execution, stopwatch))
        return self

    def compute_reference(self, calls: Sequence[CallInputs] | None = None) -> Self:
        """Compute the expected outputs from :attr:`reference_module`."""
        ran = self._artifacts.run
        if calls is None:
            calls = self.built.calls if ran is None else ran.calls
        with self._stage("reference"):
            reference = self._make_reference(calls, self._precision())
            self._artifacts.put("compute_reference", reference)
        return self

    def compare(self, reference: Reference | None = None) -> Self:
        """Judge the outputs. A mismatch is not raised; it is in :attr:`verdict`.

        Args:
            reference: used instead of the result of :meth:`compute_reference`.
        """
        ran: RunArtifact = self._artifacts.need("run", "compare")
        if (
            reference is None
            and self._artifacts.compute_reference is None
            and not self.case.random_outputs
        ):
            self.compute_reference()

        def refine() -> Reference:
            # Later comparisons use it as well.
            self._artifacts.put("compute_reference", refined := self._refine(ran.calls))
            return refined

        verdict = self._compare_outputs(
            ran.calls,
            ran.execution,
            reference or self._artifacts.compute_reference,
            refine if reference is None else None,
        )
        self._artifacts.put("compare", verdict)
        return self

    def measure_weight_quality(self) -> None:
        """Set :attr:`quality` of a model whose weights were quantized before export.

        After :meth:`run`. Does nothing where the recipe quantizes no weights, or outputs are
        random.
        """
        converted, convert = self._artifacts.quantize_weights, self.recipe.quantize_weights
        if converted is None or convert is None or self.case.random_outputs:
            return
        calls = self._artifacts.need("run", "measure_weight_quality").calls
        model = self.built.module
        with self._stage("reference"):
            layers = ConvertedLayers(model, converted, convert, self._runs.seed)
            returned, expected = self._runs(self.reference_module, calls), self._runs(model, calls)
            self.quality = layers.measure(returned, expected, self._quality_options, calls)

    def measure_metrics(self) -> list[MetricValue]:
        """Compute the metrics of the case; after :meth:`run`. Empty if it has none.

        Raises:
            StageFailure: stage ``metric``: a metric raises an error.
        """
        if not self.case.metrics:
            return []
        ran: RunArtifact = self._artifacts.need("run", "measure_metrics")
        module, graph = self.built.module, self.reference_module
        positions = self.interface.positions
        with self._stage("metric"):
            wanted = [call.outputs for call in self._runs(module, ran.calls)]
            actual = [
                [one for one, place in zip(each, positions, strict=True) if place.role == "output"]
                for each in ran.execution.outputs
            ]
            quantized = (
                None if graph is module else [call.outputs for call in self._runs(graph, ran.calls)]
            )
            inputs = [tree_leaves(arguments(call)) for call in ran.calls]
            return [
                MetricValue(
                    name=metric.name,
                    model=metric.compute(wanted, wanted, inputs),
                    value=metric.compute(actual, wanted, inputs),
                    quantized=None
                    if quantized is None
                    else metric.compute(quantized, wanted, inputs),
                    at_least=metric.at_least,
                    at_most=metric.at_most,
                    degraded_below=metric.degraded_below,
                    degraded_above=metric.degraded_above,
                )
                for metric in self.case.metrics
            ]

    def emulate(self) -> Verdict:
        """Judge the outputs of the backend's emulation for the same calls; after :meth:`compare`.

        Raises:
            ConflictingOptions: the backend has no emulation.
        """
        lowered: Lowered = self._artifacts.need("serialize", "emulate")
        self._artifacts.need("compare", "emulate")
        if not isinstance(self.backend, CanEmulate):
            raise ConflictingOptions(f"{self.backend.name} has no emulation to compare with")
        ran: RunArtifact = self._artifacts.need("run", "emulate")
        flat = self._flatten_calls(ran.calls)
        with self._stage("emulate"):
            execution = self.backend.emulate(lowered.data, flat)
        return self._compare_outputs(
            ran.calls,
            execution,
            self._artifacts.compute_reference,
            functools.partial(self._refine, ran.calls),
        )

    def check_pass_properties(self) -> list[PassProperty]:
        """Check the properties that the target's added passes must keep; empty if it adds none."""
        rewriting = self.rewriting
        if rewriting is None:
            return []
        ran = self._artifacts.run
        calls = self.built.calls if ran is None else ran.calls
        calls = [self.interface.arrange(inputs) for inputs in calls]

        def bounds() -> Sequence[Sequence[torch.Tensor | None]]:
            return (
                self._artifacts.compute_reference or self.compute_reference(calls).reference
            ).bound

        with self._stage("passes"):
            return check_properties(
                PassCheck(
                    rewriting,
                    [tree_leaves(inputs) for inputs in calls],
                    self.recipe.added,
                    self.case.changed_ops,
                    None if self.case.random_outputs else bounds,
                )
            )

    def is_export_wrong(self, call: int) -> bool:
        """Whether the exported program also exceeds the bound in this call when run eagerly.

        Needs :meth:`compare`. False where it is not known.
        """
        ran: RunArtifact = self._artifacts.need("run", "is_export_wrong")
        reference = self._artifacts.compute_reference
        if reference is None or self.interface.mutated_inputs:
            return False
        if self.reference_module is not self.built.module:
            return False  # the exported graph is the reference itself
        with self._stage("compare"):
            try:
                returned = run_calls(flatten(self.exported), ran.calls, self._runs.seed)
            except Exception:  # lowering may have removed constants from the program
                return False
            outputs = [one.outputs for one in returned]
            verdict = compare(outputs, reference, interface=self.interface)
        return any(row.call == call and row.problem for row in verdict.numerics)

    @property
    def reference_module(self) -> torch.nn.Module:
        """The module of the reference: the case's module, or the quantized graph.

        It is the graph where the recipe quantizes, or where the module came with quantized
        weights or activations.
        """
        exported = self._artifacts.quantize or self._artifacts.export
        graph = None if exported is None else exported.graph
        return self.built.module if graph is None else graph

    @property
    def attempt(self) -> InspectedCell:
        """The program with its calls and results so far; needs :meth:`serialize`."""
        ran, verdict = self._artifacts.run, self._artifacts.compare
        calls = self.built.calls if ran is None else ran.calls
        return InspectedCell(
            lowered=self.serialized,
            calls=self._flatten_calls([self.interface.arrange(inputs) for inputs in calls]),
            precision=self._precision(),
            semantics=get_semantics(self.recipe),
            seed=self._runs.seed,
            problem=None if verdict is None else verdict.problem,
            numerics=() if verdict is None else verdict.numerics,
        )

    @contextmanager
    def _add_refused_sizes(
        self, lowered: Lowered, flat: Sequence[Inputs], are_own_calls: bool
    ) -> Iterator[None]:
        """Add the refused sizes to an error raised in this context, if sizes are its cause.

        Args:
            lowered: the program.
            flat: flat inputs of each call.
            are_own_calls: whether the calls are those of :attr:`built`.
        """
        try:
            yield
        except Exception as error:
            # A backend may detect an error of an earlier stage while it runs.
            stage = error.stage if isinstance(error, StageFailure) else "run"
            cause = error.cause if isinstance(error, StageFailure) else error
            refusal = None
            if are_own_calls and isinstance(cause, Exception):
                refusal = find_refused_size(
                    cause, self.sizes, flat, lambda calls: self.backend.execute(lowered.data, calls)
                )
            if refusal is None:
                raise
            raise StageFailure(stage, refusal) from error

    @contextmanager
    def _vendor_stage(self, stage: str, call: str = "") -> Iterator[None]:
        """A stage that calls a vendor, which must not change the module, its state or its inputs.

        Args:
            stage: name of the stage.
            call: name of the call, where it differs from the stage's.
        """
        self._alteration_check.record_before_call()
        with self._stage(stage):
            yield
        with self.attribute_errors(stage):
            self._alteration_check.check_after_call(call or stage)

    def _make_reference(self, calls: Sequence[CallInputs], precision: Precision) -> Reference:
        """The reference of the program."""
        changed = () if self._artifacts.lower is None else self.interface.mutated_inputs
        return self._reference_of(self.reference_module, calls, precision, changed)

    def _refine(self, calls: Sequence[CallInputs]) -> Reference:
        """The reference with more runs."""
        return self._make_reference(calls, add_runs(self._precision()))

    def _compare_outputs(
        self,
        calls: Sequence[CallInputs],
        execution: Execution,
        reference: Reference | None,
        refine: Callable[[], Reference] | None,
    ) -> Verdict:
        with self._stage("compare"):
            if reference is None:  # the module draws random numbers
                return compare_draws(
                    self.built.module, calls, execution.outputs, self.interface, self._runs.seed
                )
            return compare(
                execution.outputs,
                reference,
                interface=self.interface,
                declared=self.serialized.program.outputs,
                narrowed=self.recipe.narrowed,
                refine=refine,
            )

    def _flatten_calls(self, calls: Sequence[CallInputs]) -> list[Inputs]:
        return [self.serialized.program.arrange(tree_leaves(inputs)) for inputs in calls]

    def _precision(self) -> Precision:
        lowered = self._artifacts.lower
        delegation = None if lowered is None else lowered.delegation
        return choose_precision(self.recipe, delegation, self.reference_module)
