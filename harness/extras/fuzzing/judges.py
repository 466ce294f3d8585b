"""Judges of generated programs: by the effect of passes, by the memory plan, or by cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig

from harness.errors import describe
from harness.extras.fuzzing.generated_program import GeneratedProgram
from harness.extras.fuzzing.search import Finding, Judge, Problem
from harness.model.recipe import KnownPass
from harness.passes.memory_plans import find_overlaps, find_use_after_free
from harness.passes.pass_log import Passes, ProgramRewrite
from harness.passes.properties import PassCheck, check_properties
from harness.pipeline import stages
from harness.pipeline.cell_options import CellOptions
from harness.pipeline.runner import run_cell
from harness.pipeline.shared_case_work import SharedCaseWork
from harness.record.cell import Status
from harness.record.target import Target
from harness.vendors.torch import tree_leaves


def make_pass_judge(
    passes: Passes, known: Sequence[KnownPass] = (), *, verified: bool = True
) -> Judge:
    """Return a judge of what passes do to a program in the edge dialect. The program is not
    lowered.

    Args:
        passes: creates the passes.
        known: the declared properties of the passes.
        verified: whether exir verifies the edge dialect.
    """
    config = EdgeCompileConfig(_check_ir_validity=verified)

    def judge(program: GeneratedProgram) -> Problem | None:
        case = program.make_case()
        built = case.make(0)
        try:
            exported = stages.export(built.module, built.inputs, dynamic_shapes=case.dynamic_shapes)
            edge = stages.to_edge(exported, config).exported_program()
        except Exception:
            return None  # a failure of torch or exir, not of a pass
        try:
            rewriting = ProgramRewrite.from_passes(edge, passes)
        except Exception as error:
            return Problem("raises", f"the pass raises {describe(error)}")
        calls = [tree_leaves(inputs) for inputs in built.calls]
        proof = PassCheck(rewriting, calls, known, case.changed_ops)
        try:
            proof.before  # noqa: B018
        except Exception:
            return None
        for one in check_properties(proof):
            if one.holds is False:
                return Problem(one.name, f"{one.name}: {one.detail}")
        return None

    return judge


def make_plan_judge(config: Callable[[], ExecutorchBackendConfig]) -> Judge:
    """Return a judge of the memory plan of a program that is emitted without a delegate.

    Args:
        config: creates the configuration that emits and plans it.
    """

    def judge(program: GeneratedProgram) -> Problem | None:
        case = program.make_case()
        built = case.make(0)
        try:
            exported = stages.export(built.module, built.inputs, dynamic_shapes=case.dynamic_shapes)
            emitted = stages.to_executorch(stages.to_edge(exported), config())
        except Exception:
            return None  # a failure of torch or exir before planning
        if found := find_overlaps(emitted):
            return Problem("plan", found[0])
        problem = find_use_after_free(emitted, [tree_leaves(inputs) for inputs in built.calls])
        return None if problem is None else Problem("plan", f"freed bytes are read: {problem}")

    return judge


class CellJudge:
    """Judges a program by the first of its cells that is red.

    A program that cannot be built, exported or run in eager is not a finding. Once a target is
    wrong, smaller programs run on that target only.
    """

    def __init__(
        self, targets: Sequence[Target], known: Sequence[KnownProblem] = (), seed: int = 0
    ):
        """Args:
        targets: targets to run programs on.
        known: problems that were found before, to ignore.
        seed: run seed.
        """
        self._targets = list(targets)
        self._known = known
        self._seed = seed

    def __call__(self, program: GeneratedProgram) -> Problem | None:
        """Return the problem on the first wrong target, or None."""
        case = program.make_case()
        options = CellOptions(shared_work=SharedCaseWork(), continue_past_defects=False)
        for target in self._targets:
            cell = run_cell(case, target, seed=self._seed, options=options)
            if not cell.status.is_red or cell.stage in _IGNORED_STAGES:
                continue
            error = (cell.error or "").partition("\n")[0]
            kind = f"{cell.status.value} at {cell.stage}"
            if cell.status is not Status.MISMATCH:
                kind = f"{kind}: {_summarize_error(error)}"
            if any(one.explains(program, str(target), kind) for one in self._known):
                continue
            self._targets = [target]
            return Problem(kind, f"{cell.status.value} at {cell.stage}: {error}", str(target))
        return None


_IGNORED_STAGES = ("build", "export", "reference")


@dataclass(frozen=True)
class KnownProblem:
    """A problem that was found before.

    A program has the same problem if it uses all of these names and is wrong in the same way.
    """

    target: str
    kind: str
    called_names: frozenset[str]

    @classmethod
    def from_finding(cls, finding: Finding) -> KnownProblem:
        """Make it from a finding."""
        return cls(finding.problem.target, finding.problem.kind, finding.program.called_names)

    def explains(self, program: GeneratedProgram, target: str, kind: str) -> bool:
        """Whether a program has this problem."""
        return (target, kind) == (
            self.target,
            self.kind,
        ) and self.called_names <= program.called_names


def _summarize_error(error: str) -> str:
    """Return the beginning of an error without names and numbers."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|\w*\d\w*", "#", error)[:80]
