"""Run one cell through the stages and decide its status, stage and error."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from msgspec import structs

from harness.errors import (
    AlteredByCall,
    ProgramError,
    SizeRefused,
    StageFailure,
    UnsupportedProgram,
    UsageError,
    describe,
    format_traceback,
)
from harness.execution.process_lock import hold_process_lock
from harness.model.backend import Backend, CanEmulate, DefectLog, past_defects
from harness.model.case import Case
from harness.model.limitation import NOT_RUN_ERROR, Limitation
from harness.model.recipe import Recipe
from harness.numerics.compare import Verdict
from harness.passes.properties import count_changed_operators
from harness.pipeline.cell_options import CellOptions
from harness.pipeline.dynamic_sizes.extra_calls import ExecutedSizes
from harness.pipeline.explain.defect_nodes import locate_defects
from harness.pipeline.explain.failing_node import find_failing_node
from harness.pipeline.explain.model_frames import find_model_frame, find_vendor_frame
from harness.pipeline.explain.refusal import find_refusal
from harness.pipeline.program_statistics import ConstantSizes, Stopwatch, measure_constants
from harness.pipeline.reference.intermediate import find_changed_form
from harness.pipeline.route import find_unsupported_reason, lower
from harness.pipeline.tester import Tester
from harness.record.cell import (
    CROSS_BACKEND,
    PUBLISHED,
    Cell,
    Delegation,
    Intermediate,
    OutputValues,
    PassProperty,
    Status,
    is_model,
)
from harness.record.evidence import MetricValue, Quality
from harness.record.program_data import Defect, Divergence, Encoding
from harness.record.severity import Severity, find_worst
from harness.record.target import Target
from harness.workers.memory import MemoryMeter, format_memory_use, is_out_of_memory


@dataclass(frozen=True)
class CellEnding:
    """How a cell ended.

    Attributes:
        status: its status.
        stage: the stage at which it failed; None if it passed.
        error: why it failed; None if it passed.
        traceback: of the error.
        frame: the line of the model at which the error was raised.
        vendor_frame: the line of the vendor's code at which the error was raised.
        failing_node: the node at which the stage failed.
        excused: the cell was not run because its limitation says that it must not run.
    """

    status: Status
    stage: str | None = None
    error: str | None = None
    traceback: str | None = None
    frame: str | None = None
    vendor_frame: str = ""
    failing_node: Divergence | None = None
    excused: bool = False


class CellRun:
    """Runs one cell and holds its results, which are partial when a stage fails.

    Args:
        case: the case.
        target: the target.
        seed: run seed.
        options: how the cell runs.
    """

    def __init__(self, case: Case, target: Target, seed: int, options: CellOptions) -> None:
        self.case = case
        self.target = target
        self.seed = seed
        self.options = options
        self.meter = options.meter or MemoryMeter()
        self.defects: list[Defect] = []
        self.stages: dict[str, float] = {}
        self.delegation = Delegation()
        self.program_bytes = 0
        self.planned_memory: list[int] = []
        self.constant_sizes: ConstantSizes | None = None
        self.stopwatch: Stopwatch | None = None
        self.encodings: list[Encoding] = []
        self.runtime = "none"
        self.outputs: list[OutputValues] = []
        self.properties: list[PassProperty] = []
        self.intermediates: list[Intermediate] = []
        self.quality: Quality | None = None
        self.metrics: list[MetricValue] = []
        self.side_effects: list[str] = []
        self.changed_ops: dict[str, tuple[int, int]] = {}
        self.verdict: Verdict | None = None
        self.severity: Severity | None = None
        self.sizes = ExecutedSizes()
        self.refused_call: int | None = None

    def run(
        self, backend: Backend, recipe: Recipe, only: str, limitation: Limitation | None
    ) -> CellEnding:
        """Run the cell through its stages until one fails.

        Args:
            backend: the target's backend.
            recipe: the target's recipe.
            only: why the program is lowered and not executed; empty to execute it.
            limitation: the limitation that will judge the cell, or None.
        """
        try:
            tester = Tester(
                self.case,
                self.target,
                seed=self.seed,
                recipe=recipe,
                backend=backend,
                meter=self.meter,
                shared_work=self.options.shared_work,
                quality=self.options.quality,
            )
            self.stages = tester.seconds
            if (reason := find_unsupported_reason(tester)) is not None:
                return CellEnding(Status.UNSUPPORTED, error=reason)
            if limitation is not None and not limitation.run:
                return CellEnding(limitation.shown_as, error=NOT_RUN_ERROR, excused=True)
            return self._report_changed_form(tester, self._run_stages(tester, only, limitation))
        except StageFailure as failure:
            return self._stop_at_failure(failure)

    def record(self, outcome: CellEnding, seconds: float) -> Cell:
        """The record of a cell with this outcome after so many seconds."""
        case, sizes, stopwatch = self.case, self.constant_sizes, self.stopwatch
        return Cell(
            case=case.name,
            target=str(self.target),
            status=outcome.status,
            op=case.op,
            tags=sorted(case.tags),
            seed=self.seed,
            stage=outcome.stage,
            error=outcome.error,
            traceback=outcome.traceback,
            model_frame=outcome.frame,
            vendor_frame=outcome.vendor_frame,
            first_divergence=outcome.failing_node,
            runtime=self.runtime,
            delegation=self.delegation,
            numerics=self.verdict.numerics if self.verdict is not None else [],
            severity=self.severity if outcome.status is Status.MISMATCH else None,
            stages=self.stages,
            memory=self.meter.peaks,
            seconds=seconds,
            overhead=seconds - sum(self.stages.values()),
            program_bytes=self.program_bytes,
            constant_bytes=None if sizes is None else sizes.constants,
            duplicate_constant_bytes=None if sizes is None else sizes.duplicates,
            planned_memory=self.planned_memory,
            first_seconds=None if stopwatch is None else stopwatch.first,
            steady_seconds=None if stopwatch is None else stopwatch.steady,
            encodings=self.encodings,
            outputs=self.outputs,
            properties=self.properties,
            intermediates=self.intermediates,
            quality=self.quality,
            metrics=self.metrics,
            side_effects=self.side_effects,
            changed_ops=self.changed_ops,
            vacuous_reason=case.vacuous,
            source=case.source,
            defects=self.defects,
            dynamic_dimensions=self.sizes.dimensions,
            untried_sizes=self.sizes.untried,
            refused_call=self.refused_call,
        )

    def _run_stages(self, tester: Tester, only: str, limitation: Limitation | None) -> CellEnding:
        """Lower and execute a supported cell; the arguments are those of :meth:`run`."""
        # Executing and judging published models past their first defect takes minutes.
        continues = self.options.continue_past_defects and PUBLISHED not in self.case.tags
        with past_defects() if continues else nullcontext(DefectLog()) as log:
            failure: StageFailure | None = None
            try:
                outcome = self._apply_pass_properties(
                    tester, self._lower(tester, only) or self._execute(tester, only)
                )
                rest = outcome.error
            except StageFailure as raised:
                failure = raised
                outcome = self._stop_at_failure(raised, tester)
                rest = f"execution stops at stage {outcome.stage}: {outcome.error}"
        if log.failure is not None:
            failure, outcome = self._stop_at_first_defect(tester, log, rest or "within bounds")
        if failure is None:
            return outcome
        if limitation is not None and limitation.predicts(
            outcome.status, outcome.stage, outcome.error
        ):
            return outcome  # the limitation decides; finding a refusal would lower again
        with hold_process_lock():
            reason = find_refusal(tester, failure)
        if reason is None:
            return outcome
        return replace(outcome, status=Status.UNSUPPORTED, error=reason)

    def _stop_at_first_defect(
        self, tester: Tester, log: DefectLog, rest: str
    ) -> tuple[StageFailure, CellEnding]:
        """The outcome of a cell that continued past defects: the outcome of its first defect.

        Args:
            tester: the tester of the cell.
            log: the defects.
            rest: the outcome of the stages after the defects, for the error.
        """
        failure = log.failure
        if not isinstance(failure, StageFailure):
            stage = "lower" if tester.case.exporter is None else "ship"
            failure = StageFailure(stage, failure or RuntimeError())
        outcome = self._stop_at_failure(failure, tester)
        self.defects = locate_defects(tester, log.defects) or [Defect(error=outcome.error or "")]
        self.outputs = []  # no device computes these outputs; other targets must not be compared
        number = len(self.defects)
        count = f"{number} known defect{'s' if number > 1 else ''}"
        first = (outcome.error or "").rstrip(";")
        return failure, replace(outcome, error=f"{first}; {count}; otherwise {rest}")

    def _report_changed_form(self, tester: Tester, outcome: CellEnding) -> CellEnding:
        """Replace the outcome where the program differs from the module before quantization.

        That difference is reported first, because later stages inherit it.
        """
        self.intermediates, self.quality = tester.intermediates, tester.quality
        changed = find_changed_form(self.intermediates)
        if changed is None:
            return outcome
        stage, problem = changed
        if outcome.status.is_red:
            problem = f"{problem}; then, at stage {outcome.stage}: {outcome.error}"
        return CellEnding(Status.FAILED, stage, problem)

    def _stop_at_failure(self, failure: StageFailure, tester: Tester | None = None) -> CellEnding:
        """The outcome of a cell of which a stage failed.

        Args:
            failure: the stage and its error.
            tester: the tester of the cell; None if the case could not be built.
        """
        cause, stage = failure.cause, failure.stage
        self.refused_call = cause.call if isinstance(cause, SizeRefused) else None
        status, error = Status.FAILED, describe(cause)
        if isinstance(cause, AlteredByCall):
            self.side_effects = cause.names
        if isinstance(cause, UnsupportedProgram):
            status = Status.UNSUPPORTED
        elif is_out_of_memory(cause):
            # Same status as a cell that the memory monitor ends: either may happen first.
            status = Status.CRASHED
            held = format_memory_use(self.meter.peaks.get(stage, 0), stage)
            error = f"{held}, and more was refused: {error}"
        node = None
        if tester is not None:
            node = find_failing_node(tester, failure)
            if self.options.on_failure is not None:
                self.options.on_failure(tester)
        frame = find_model_frame(cause)
        if node is not None and not node.source and frame is not None:
            node = structs.replace(node, source=frame)
        return CellEnding(
            status, stage, error, format_traceback(cause), frame, find_vendor_frame(cause), node
        )

    def _lower(self, tester: Tester, only: str) -> CellEnding | None:
        """Lower the cell. Returns an outcome if the program violates its recipe, else None."""
        lower(tester, sizes=not only)
        self.sizes = tester.sizes
        recipe, lowered = tester.recipe, tester.serialized
        self.delegation = lowered.delegation
        self.program_bytes = len(lowered.data)
        self.planned_memory = list(lowered.program.plan.non_const_buffer_sizes[1:])
        # Execution reports a payload that its backend cannot read.
        with suppress(ProgramError):
            self.constant_sizes = measure_constants(lowered.program, tester.backend)
        if (options := self.options).save is not None:
            _save(lowered.data, options.save)
        if options.cell_folder is not None:
            options.cell_folder.write_program(tester)
        if options.on_lowered is not None:
            options.on_lowered(self.record(CellEnding(Status.LOWERED), sum(self.stages.values())))
        must_delegate = options.require_delegation or recipe.require_delegation
        problem = tester.case.find_lost_delegation(tester.target, self.delegation)
        if must_delegate and self.delegation.is_empty:
            problem = "nothing was delegated, and the target requires delegation"
        if problem is not None:
            return CellEnding(Status.FAILED, "lower", problem)
        with tester.attribute_errors("lower"):
            found = recipe.verify(lowered) if recipe.verify is not None else None
            encodings = recipe.encodings(lowered) if recipe.encodings is not None else []
        keep = CROSS_BACKEND in tester.case.tags
        self.encodings = [item if keep else item.brief() for item in encodings]
        return None if found is None else CellEnding(Status.FAILED, "lower", found)

    def _apply_pass_properties(self, tester: Tester, outcome: CellEnding) -> CellEnding:
        """Check the passes that the target adds, and fail the cell if they break a property."""
        self.properties = tester.check_pass_properties()
        if tester.rewriting is not None:
            self.changed_ops = count_changed_operators(tester.rewriting)
        broken = [f"{one.name}: {one.detail}" for one in self.properties if one.holds is False]
        if not broken:
            return outcome
        problem = f"the passes do not keep {'; '.join(broken)}"
        if outcome.status.is_red:
            return replace(outcome, error=f"{outcome.error}; {problem}")
        return CellEnding(Status.FAILED, "passes", problem)

    def _execute(self, tester: Tester, only: str) -> CellEnding:
        if only:
            return CellEnding(Status.LOWERED, error=only)
        execution = tester.run(steady=is_model(tester.case.tags)).execution
        self.stopwatch = tester.stopwatch
        self.runtime = execution.runtime
        self.verdict = verdict = tester.compare().verdict
        options = self.options
        if options.cell_folder is not None:
            options.cell_folder.write_outputs(tester)
        if options.on_compared is not None:
            options.on_compared(tester)
        if CROSS_BACKEND in tester.case.tags:
            self.outputs = [
                OutputValues(call=call, output=index, values=tensor.double().flatten().tolist())
                for call, outputs in enumerate(execution.outputs)
                for index, tensor in enumerate(outputs)
                if isinstance(tensor, torch.Tensor) and tensor.is_floating_point()
            ]
        tester.measure_weight_quality()
        self.metrics = tester.measure_metrics()
        problem, self.severity = verdict.problem, verdict.severity
        if options.compare_runtimes and self.runtime == "native" and self.delegation.delegates:
            emulated = _find_disagreement(tester)
            if emulated is not None:
                problem = _describe_disagreement(verdict, emulated)
                self.severity = find_worst([verdict.severity, emulated.severity])
        if problem is None:
            missed = [str(metric) for metric in self.metrics if not metric.holds]
            if missed:
                return CellEnding(Status.FAILED, "metric", "; ".join(missed))
            return CellEnding(Status.PASSED)
        return CellEnding(
            Status.MISMATCH, "compare", f"{problem}{_describe_sizes_of_mismatch(tester)}"
        )


def _describe_sizes_of_mismatch(tester: Tester) -> str:
    """The sizes of the first call with a wrong output, where they differ from the example's."""
    rows = tester.verdict.numerics
    wrong = next((row.call for row in rows if row.problem is not None), None)
    if wrong is None or not (named := tester.sizes.describe_call(wrong)):
        return ""
    blame = "; torch.export's program in eager PyTorch is as wrong there"
    return f"; call {wrong} has {named}{blame if tester.is_export_wrong(wrong) else ''}"


def _find_disagreement(tester: Tester) -> Verdict | None:
    """Judge the emulation; returns its verdict where it differs from the native verdict."""
    if not isinstance(tester.backend, CanEmulate):
        return None
    emulated = tester.emulate()
    return None if emulated.passed == tester.verdict.passed else emulated


def _describe_disagreement(native: Verdict, emulated: Verdict) -> str:
    return (
        f"the runtimes disagree: native {native.problem or 'conforms'}, "
        f"emulated {emulated.problem or 'conforms'}"
    )


def _save(program: bytes, path: Path) -> None:
    try:
        path.write_bytes(program)
    except OSError as error:
        raise UsageError(f"cannot save the program to {path}: {error.strerror}") from error
