"""One cell on its way through the stages, and how it ends."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
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
    printable,
)
from harness.execution.memory import Meter, is_refusal, said
from harness.execution.process_lock import exclusive
from harness.model.backend import Backend, DefectLog, Emulating, past_defects
from harness.model.case import Case
from harness.model.limitation import EXCUSE, Limitation
from harness.model.recipe import Recipe
from harness.numerics.compare import Verdict
from harness.passes.properties import changed_ops
from harness.pipeline.dynamic_sizes.extra_calls import Sizes
from harness.pipeline.explain.defect_nodes import placed
from harness.pipeline.explain.failing_node import failing_node
from harness.pipeline.explain.model_frames import model_frame, vendor_frame
from harness.pipeline.explain.refusal import refused
from harness.pipeline.program_statistics import Stopwatch, Weight, weigh
from harness.pipeline.route import lower, unsupported
from harness.pipeline.saving.cell_folder import Keep
from harness.pipeline.siblings import Siblings
from harness.pipeline.tester import Tester
from harness.record.cell import (
    CROSS_BACKEND,
    Delegation,
    Divergence,
    Intermediate,
    Output,
    Property,
    Status,
    is_model,
)
from harness.record.defect import Defect
from harness.record.program_data import Encoding
from harness.record.severity import Severity, worst
from harness.record.target import Target

_TRACEBACK_LINES = 60

# Where each form of a program was made, and by whom.
CHANGED = "changed the module before anything was quantized"
_FORMS = {
    "exported": ("export", "torch.export"),
    "rewritten": ("quantize", "the quantizer's rewriting"),
}


@dataclass(frozen=True)
class Ending:
    """How a cell ended, and where and why if it did not pass; ``frame`` is the line of the model,
    ``vendor_frame`` that of the vendor's code; ``at`` is the node that fails; ``excused`` when its
    limitation says that it must not run."""

    status: Status
    stage: str | None = None
    error: str | None = None
    traceback: str | None = None
    frame: str | None = None
    vendor_frame: str = ""
    at: Divergence | None = None
    excused: bool = False


class CellRun:
    """One cell on its way: what is known when it ends, however far it came."""

    def __init__(
        self,
        require_delegation: bool,
        compare_runtimes: bool,
        save: Path | None,
        keep: Keep | None,
        meter: Meter,
        judged: Callable[[Tester], None] | None,
        siblings: Siblings | None,
        go_past: bool,
        failed: Callable[[Tester], None] | None = None,
        lowered: Callable[[CellRun], None] | None = None,
    ) -> None:
        self.go_past = go_past
        self.failed = failed
        self.lowered = lowered
        self.defects: list[Defect] = []
        self.judged = judged
        self.siblings = siblings
        self.require_delegation = require_delegation
        self.compare_runtimes = compare_runtimes
        self.save = save
        self.keep = keep
        self.meter = meter
        self.stages: dict[str, float] = {}
        self.delegation = Delegation()
        self.program_bytes = 0
        self.planned_memory: list[int] = []
        self.weight: Weight | None = None
        self.watch: Stopwatch | None = None
        self.encodings: list[Encoding] = []
        self.runtime = "none"
        self.outputs: list[Output] = []
        self.properties: list[Property] = []
        self.intermediates: list[Intermediate] = []
        self.altered: list[str] = []
        self.changed_ops: dict[str, tuple[int, int]] = {}
        self.verdict: Verdict | None = None
        self.severity: Severity | None = None
        self.sizes = Sizes()
        self.refused_call: int | None = None

    def end(
        self,
        case: Case,
        target: Target,
        seed: int,
        backend: Backend,
        recipe: Recipe,
        only: str,
        limitation: Limitation | None,
    ) -> Ending:
        """Take the cell as far as it goes.

        Args:
            case: what is tested.
            target: where and how.
            seed: run seed.
            backend: of the target.
            recipe: of the target.
            only: why it is lowered and not executed; empty to execute it.
            limitation: the known gap that will judge it; None where there is none.
        """
        try:
            tester = Tester(
                case,
                target,
                seed=seed,
                recipe=recipe,
                backend=backend,
                meter=self.meter,
                siblings=self.siblings,
            )
            self.stages = tester.seconds
            if (reason := unsupported(tester)) is not None:
                return Ending(Status.UNSUPPORTED, error=reason)
            if limitation is not None and not limitation.run:
                return Ending(limitation.shown_as, error=EXCUSE, excused=True)
            return self._with_forms(tester, self._taken(tester, only, limitation))
        except StageFailure as failure:
            return self._failed(failure)

    def _taken(self, tester: Tester, only: str, limitation: Limitation | None) -> Ending:
        """How a cell ends that is lowered; the arguments are those of :meth:`end`."""
        with past_defects() if self.go_past else nullcontext(DefectLog()) as log:
            failure: StageFailure | None = None
            try:
                ending = self._prove(
                    tester, self._lower(tester, only) or self._execute(tester, only)
                )
                rest = ending.error
            except StageFailure as raised:
                failure = raised
                ending = self._failed(raised, tester)
                rest = f"execution does not get past this: {ending.stage}: {ending.error}"
        if log.failure is not None:
            failure, ending = self._went_past(tester, log, rest or "within bounds")
        if failure is None:
            return ending
        if limitation is not None and limitation.predicts(
            ending.status, ending.stage, ending.error
        ):
            return ending  # the entry has the say; asking would lower once or twice more
        with exclusive():
            reason = refused(tester, failure)
        if reason is None:
            return ending
        return replace(ending, status=Status.UNSUPPORTED, error=reason)

    def _went_past(self, tester: Tester, log: DefectLog, rest: str) -> tuple[StageFailure, Ending]:
        """How a cell ends that went past defects: as its first one would have ended it.

        Args:
            tester: as far as it came.
            log: the defects.
            rest: what came of all else.
        """
        failure = log.failure
        if not isinstance(failure, StageFailure):
            stage = "lower" if tester.case.exporter is None else "ship"
            failure = StageFailure(stage, failure or RuntimeError())
        ending = self._failed(failure, tester)
        self.defects = placed(tester, log.defects) or [Defect(error=ending.error or "")]
        self.outputs = []  # no device returns them: not to be compared with those of other targets
        number = len(self.defects)
        known = f"{number} known defect{'s' if number > 1 else ''}"
        first = (ending.error or "").rstrip(";")
        return failure, replace(ending, error=f"{first}; {known}; otherwise {rest}")

    def _with_forms(self, tester: Tester, ending: Ending) -> Ending:
        """The ending of a cell as it is, unless its program differed from the module before it was
        quantized: that comes first, whatever came of it later."""
        self.intermediates = tester.intermediates
        changed = changed_form(self.intermediates)
        if changed is None:
            return ending
        stage, problem = changed
        if ending.status.is_red:
            problem = f"{problem}; then, at stage {ending.stage}: {ending.error}"
        return Ending(Status.FAILED, stage, problem)

    def _failed(self, failure: StageFailure, tester: Tester | None = None) -> Ending:
        """How a cell ends in which a stage failed.

        Args:
            failure: of which stage, and why.
            tester: as far as it came; None where it was not even made.
        """
        cause, stage = failure.cause, failure.stage
        self.refused_call = cause.call if isinstance(cause, SizeRefused) else None
        status, error = Status.FAILED, describe(cause)
        if isinstance(cause, AlteredByCall):
            self.altered = cause.names
        if isinstance(cause, UnsupportedProgram):
            status = Status.UNSUPPORTED
        elif is_refusal(cause):
            # As a cell that took what there is and was ended: which of the two comes first is luck.
            status = Status.CRASHED
            held = said(self.meter.peaks.get(stage, 0), stage)
            error = f"{held}, and more was refused: {error}"
        at = None
        if tester is not None:
            at = failing_node(tester, failure)
            if self.failed is not None:
                self.failed(tester)
        frame = model_frame(cause)
        if at is not None and not at.source and frame is not None:
            at = structs.replace(at, source=frame)
        return Ending(status, stage, error, _traceback(cause), frame, vendor_frame(cause), at)

    def _lower(self, tester: Tester, only: str) -> Ending | None:
        """How a cell ends whose program is not what its recipe stands for; None for others."""
        lower(tester, sizes=not only)
        self.sizes = tester.sizes
        recipe, lowered = tester.recipe, tester.shipped
        self.delegation = lowered.delegation
        self.program_bytes = len(lowered.data)
        self.planned_memory = list(lowered.program.plan.non_const_buffer_sizes[1:])
        # A payload that its own backend cannot read is found out when it is executed.
        with suppress(ProgramError):
            self.weight = weigh(lowered.program, tester.backend)
        if self.save is not None:
            _save(lowered.data, self.save)
        if self.keep is not None:
            self.keep.lowered(tester)
        if self.lowered is not None:
            self.lowered(self)
        must_delegate = self.require_delegation or recipe.require_delegation
        if must_delegate and not self.delegation.delegates:
            problem = "nothing was delegated, and the target requires delegation"
            return Ending(Status.FAILED, "lower", problem)
        with tester.attributed("lower"):
            found = recipe.verify(lowered) if recipe.verify is not None else None
            encodings = recipe.encodings(lowered) if recipe.encodings is not None else []
        keep = CROSS_BACKEND in tester.case.tags
        self.encodings = [item if keep else item.brief() for item in encodings]
        return None if found is None else Ending(Status.FAILED, "lower", found)

    def _prove(self, tester: Tester, ending: Ending) -> Ending:
        """The ending of a cell as it is, unless a pass that its target adds breaks something."""
        self.properties = tester.prove()
        if tester.rewriting is not None:
            self.changed_ops = changed_ops(tester.rewriting)
        broken = [f"{one.name}: {one.detail}" for one in self.properties if one.kept is False]
        if not broken:
            return ending
        problem = f"the passes do not keep {'; '.join(broken)}"
        if ending.status.is_red:
            return replace(ending, error=f"{ending.error}; {problem}")
        return Ending(Status.FAILED, "passes", problem)

    def _execute(self, tester: Tester, only: str) -> Ending:
        if only:
            return Ending(Status.LOWERED, error=only)
        execution = tester.run(steady=is_model(tester.case.tags)).execution
        self.watch = tester.watch
        self.runtime = execution.runtime
        self.verdict = verdict = tester.compare().verdict
        if self.keep is not None:
            self.keep.judged(tester)
        if self.judged is not None:
            self.judged(tester)
        if CROSS_BACKEND in tester.case.tags:
            self.outputs = [
                Output(call=call, output=index, values=tensor.double().flatten().tolist())
                for call, outputs in enumerate(execution.outputs)
                for index, tensor in enumerate(outputs)
                if isinstance(tensor, torch.Tensor) and tensor.is_floating_point()
            ]
        problem, self.severity = verdict.problem, verdict.severity
        if self.compare_runtimes and self.runtime == "native" and self.delegation.delegates:
            emulated = _disagreement(tester)
            if emulated is not None:
                problem = _disagreed(verdict, emulated)
                self.severity = worst([verdict.severity, emulated.severity])
        if problem is None:
            return Ending(Status.PASSED)
        return Ending(Status.MISMATCH, "compare", f"{problem}{_at(tester)}")


def changed_form(forms: Sequence[Intermediate]) -> tuple[str, str] | None:
    """The stage that made the first form of a program which differs from the module, and how it
    differs; None where none does."""
    wrong = next((form for form in forms if form.problem is not None), None)
    if wrong is None:
        return None
    stage, whose = _FORMS[wrong.name]
    return stage, f"{whose} {CHANGED}: {wrong.problem}"


def _at(tester: Tester) -> str:
    """The sizes at which the first wrong output was returned, where they are not the example's."""
    rows = tester.verdict.numerics
    wrong = next((row.call for row in rows if row.problem is not None), None)
    if wrong is None or not (named := tester.sizes.at(wrong)):
        return ""
    blame = ""
    if tester.is_export_wrong(wrong):
        blame = "; torch.export's program in eager PyTorch is as wrong there"
    return f"; call {wrong} has {named}{blame}"


def _disagreement(tester: Tester) -> Verdict | None:
    """The verdict on an emulated execution, where it is another than on the native one."""
    if not isinstance(tester.backend, Emulating):
        return None
    emulated = tester.emulate()
    return None if emulated.passed == tester.verdict.passed else emulated


def _disagreed(native: Verdict, emulated: Verdict) -> str:
    return (
        f"the runtimes disagree: native {native.problem or 'conforms'}, "
        f"emulated {emulated.problem or 'conforms'}"
    )


def _save(program: bytes, path: Path) -> None:
    try:
        path.write_bytes(program)
    except OSError as error:
        raise UsageError(f"cannot save the program to {path}: {error.strerror}") from error


def _traceback(error: BaseException) -> str:
    lines = printable("".join(traceback.format_exception(error))).splitlines()
    if len(lines) > _TRACEBACK_LINES:
        lines = [f"... {len(lines) - _TRACEBACK_LINES} lines above", *lines[-_TRACEBACK_LINES:]]
    return "\n".join(lines)
