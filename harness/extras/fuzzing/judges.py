"""Judge generated programs by their cells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.extras.fuzzing.generated_program import GeneratedProgram
from harness.extras.fuzzing.search import Finding, Problem
from harness.model import registry
from harness.pipeline.cell_options import CellOptions
from harness.pipeline.runner import run_cell
from harness.pipeline.shared_case_work import SharedCaseWork
from harness.pipeline.tester import Tester
from harness.record.cell import MODEL, Status
from harness.record.target import Target
from harness.tracing.divergence import trace_cell
from harness.tracing.trace_result import add_trace


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


def find_known_causes(program: GeneratedProgram, target: Target, seed: int) -> list[str]:
    """Return the causes of the known issues that a program shows on a target.

    Args:
        program: a program that is red there.
        target: the target.
        seed: run seed.
    """
    ran: list[Tester] = []
    failed: list[Tester] = []
    options = CellOptions(
        continue_past_defects=False, on_compared=ran.append, on_failure=failed.append
    )
    # Only models are traced, and known issues are recognised by the node.
    case = replace(program.make_case(), tags=frozenset({MODEL}))
    cell = run_cell(case, target, seed=seed, options=options)
    traced = trace_cell(
        cell,
        case,
        finished_tester=ran[0] if ran else None,
        failed_tester=failed[0] if failed else None,
        search_failures=True,
    )
    cell = cell if traced is None else add_trace(cell, traced)
    registry.note_known_issues(cell)
    return [issue.cause for issue in cell.known_issues]


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
