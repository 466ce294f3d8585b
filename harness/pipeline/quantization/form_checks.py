"""The tester's checks of the forms that a quantizer makes of a program."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence

import torch
from torch.export import ExportedProgram

from harness.model.case import Built, CallInputs, Case
from harness.model.precision import Precision
from harness.model.recipe import Recipe
from harness.numerics.module_runs import CallResult, EagerRuns
from harness.numerics.oracle import Reference, compute_reference
from harness.pipeline import stages
from harness.pipeline.artifacts import ArtifactReader
from harness.pipeline.quantization.lost_writes import find_lost_write
from harness.pipeline.quantization.observed_graph import find_places, replace_observers
from harness.pipeline.quantization.prediction import (
    Prediction,
    RunWithout,
    compare_quantized,
    predict,
)
from harness.pipeline.quantization.quality import QualityOptions
from harness.pipeline.quantization.quantizer_runs import QuantizerRuns
from harness.pipeline.reference.assumed_precision import (
    add_runs,
    choose_float_precision,
    choose_precision,
    get_semantics,
)
from harness.pipeline.reference.calls import add_observing_calls
from harness.pipeline.reference.intermediate import FloatModule, compare_form
from harness.pipeline.shared_case_work import SharedCaseWork
from harness.pipeline.stage_clock import StageClock
from harness.record.cell import Intermediate
from harness.record.evidence import Quality


class FormChecks(StageClock, ArtifactReader):
    """Checks of the exported, the rewritten and the quantized graph against the module.

    Attributes:
        case: the case.
        recipe: the target's recipe.
        built: module and inputs, seeded from (seed, case) alone and cast to the recipe's dtype.
    """

    case: Case
    recipe: Recipe
    built: Built
    _quality_options: QualityOptions
    _runs: EagerRuns
    _shared_work: SharedCaseWork | None

    def _compare_forms(
        self, exported: ExportedProgram, prepared: torch.fx.GraphModule
    ) -> list[Intermediate]:
        """Compare the rewritten float graph of a quantized program with the module.

        Where it differs, the exported program is compared too: it may differ already.
        """
        in_spec = exported.call_spec.in_spec
        with self._stage("reference"), self.attribute_errors("quantize"):
            original = self._make_float_module(exported)
            paused = functools.partial(replace_observers, find_places(prepared))
            rewritten = compare_form("rewritten", prepared, in_spec, original, paused)
            if rewritten.problem is None:
                return [rewritten]
            plain = exported.module(check_guards=False)
            return [compare_form("exported", plain, in_spec, original), rewritten]

    def _make_float_module(self, exported: ExportedProgram) -> FloatModule:
        module = self.built.module
        calls = add_observing_calls(self._runs, module, exported, self.built.calls)
        judge = functools.partial(self._compute_float_reference, calls)
        is_random = self.case.random_outputs
        return FloatModule(
            module, calls, self._runs, None if is_random else judge, self.recipe.narrowed
        )

    def _predict_quantized(
        self,
        exported: ExportedProgram,
        prepared: torch.fx.GraphModule,
        calibration: Sequence[CallInputs],
    ) -> Prediction | None:
        """Predict the quantized graph from the calibrated one.

        None where outputs are random, or where nothing is quantized.
        """
        if self.case.random_outputs:
            return None
        with self._stage("reference"), self.attribute_errors("quantize"):
            runs = QuantizerRuns.from_calibrated(prepared, self._runs.seed)
            if not runs.places:
                return None
            original = self._make_float_module(exported)

            def differs(graph: torch.fx.GraphModule) -> bool:
                paused = functools.partial(replace_observers, runs.places)
                in_spec = exported.call_spec.in_spec
                form = compare_form("rewritten", graph, in_spec, original, paused)
                return form.problem is not None

            return predict(
                runs,
                calibration,
                original,
                is_apart=calibration is not self.built.calls,
                lost_write=find_lost_write(runs, differs),
                options=self._quality_options,
                run_without=self._make_partial_run(exported, calibration),
            )

    def _make_partial_run(
        self, exported: ExportedProgram, calibration: Sequence[CallInputs]
    ) -> RunWithout | None:
        """Make a function that quantizes the program with some modules in float and runs it."""
        keep, make = self.recipe.keep_float, self.recipe.quantizer
        if keep is None or make is None:
            return None

        def run(names: Sequence[str], calls: Sequence[CallInputs]) -> Sequence[CallResult]:
            prepared = stages.prepare(exported, keep(make(), names), qat=self.recipe.qat)
            stages.calibrate(prepared, calibration)
            runs = QuantizerRuns.from_calibrated(prepared, self._runs.seed)
            return runs.run_quantized(calls)

        return run

    def _compare_quantized(
        self, exported: ExportedProgram, graph: torch.fx.GraphModule, prediction: Prediction
    ) -> tuple[Intermediate, Quality | None]:
        """Compare the quantized graph with its prediction and with the float model."""
        with self._stage("reference"), self.attribute_errors("quantize"):
            precision = choose_precision(self.recipe, None, graph)
            judge = functools.partial(
                self._reference_of, graph, prediction.calls, precision, prediction.changed
            )
            in_spec = exported.call_spec.in_spec
            return compare_quantized(graph, prediction, in_spec, self._runs, judge)

    def _compute_float_reference(
        self, calls: Sequence[CallInputs], changed: Collection[int], refined: bool = False
    ) -> Reference:
        """The reference of the float module of a quantized program."""
        precision = choose_float_precision(self.recipe)
        precision = add_runs(precision) if refined else precision
        return self._reference_of(self.built.module, calls, precision, changed)

    def _reference_of(
        self,
        module: torch.nn.Module,
        calls: Sequence[CallInputs],
        precision: Precision,
        changed: Collection[int],
    ) -> Reference:
        is_own, runs = module is self.built.module, self._runs
        if is_own and self._shared_work is not None and self.recipe.semantics is None:
            return self._shared_work.compute_reference(
                self.case, self.built, calls, precision, runs, changed
            )
        return compute_reference(
            module,
            calls,
            precision,
            runs.seed,
            get_semantics(self.recipe),
            changed=changed,
            model=None if is_own else self.built.module,
            runs=runs,
        )
