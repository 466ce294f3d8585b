"""What can be wrong with a generated program: with what passes make of it, with its memory plan, or
with a cell."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig

from harness.errors import describe
from harness.extras.fuzzing.generated_program import Program
from harness.extras.fuzzing.search import Finding, Judge, Problem
from harness.model.recipe import KnownPass
from harness.passes.memory_plans import clashes, spoilt
from harness.passes.pass_log import Passes, Rewriting
from harness.passes.properties import Proof, properties
from harness.pipeline import stages
from harness.pipeline.runner import run_cell
from harness.pipeline.siblings import Siblings
from harness.record.cell import Status
from harness.record.target import Target
from harness.vendors.torch import tree_leaves


def of_passes(passes: Passes, known: Sequence[KnownPass] = (), *, verified: bool = True) -> Judge:
    """Judge what passes make of a program in the edge dialect, without lowering it.

    Args:
        passes: makes them.
        known: what they declare.
        verified: whether exir verifies the edge dialect.
    """
    config = EdgeCompileConfig(_check_ir_validity=verified)

    def judge(program: Program) -> Problem | None:
        case = program.case()
        built = case.make(0)
        try:
            exported = stages.export(built.module, built.inputs, dynamic_shapes=case.dynamic_shapes)
            edge = stages.to_edge(exported, config).exported_program()
        except Exception:
            return None  # torch's or exir's to say, and no pass'
        try:
            rewriting = Rewriting.of(edge, passes)
        except Exception as error:
            return Problem("raises", f"the pass raises {describe(error)}")
        calls = [tree_leaves(inputs) for inputs in built.calls]
        proof = Proof(rewriting, calls, known, case.changes)
        try:
            proof.before  # noqa: B018
        except Exception:
            return None
        for one in properties(proof):
            if one.kept is False:
                return Problem(one.name, f"{one.name}: {one.detail}")
        return None

    return judge


def of_plans(config: Callable[[], ExecutorchBackendConfig]) -> Judge:
    """Judge the memory plan of a program that is emitted without a delegate.

    Args:
        config: how it is emitted and planned.
    """

    def judge(program: Program) -> Problem | None:
        case = program.case()
        built = case.make(0)
        try:
            exported = stages.export(built.module, built.inputs, dynamic_shapes=case.dynamic_shapes)
            emitted = stages.to_executorch(stages.to_edge(exported), config())
        except Exception:
            return None  # torch's or exir's to say
        if found := clashes(emitted):
            return Problem("plan", found[0])
        problem = spoilt(emitted, [tree_leaves(inputs) for inputs in built.calls])
        return None if problem is None else Problem("plan", f"freed bytes are read: {problem}")

    return judge


class OfCells:
    """Judges a program by its cells: the first that is red.

    What cannot be built, exported or referred to is nobody's; it is no finding. Once a target is
    wrong, smaller programs are taken to that one alone.
    """

    def __init__(self, targets: Sequence[Target], known: Sequence[Known] = (), seed: int = 0):
        """Args:
        targets: where programs are taken to.
        known: what was found before, and is not to be found again.
        seed: run seed.
        """
        self._targets = list(targets)
        self._known = known
        self._seed = seed

    def __call__(self, program: Program) -> Problem | None:
        """What is wrong on the first target that is."""
        case, siblings = program.case(), Siblings()
        for target in self._targets:
            cell = run_cell(case, target, seed=self._seed, siblings=siblings, go_past=False)
            if not cell.status.is_red or cell.stage in _NOBODYS:
                continue
            error = (cell.error or "").partition("\n")[0]
            kind = f"{cell.status.value} at {cell.stage}"
            if cell.status is not Status.MISMATCH:
                kind = f"{kind}: {_gist(error)}"
            if any(one.explains(program, str(target), kind) for one in self._known):
                continue
            self._targets = [target]
            return Problem(kind, f"{cell.status.value} at {cell.stage}: {error}", str(target))
        return None


_NOBODYS = ("build", "export", "reference")


@dataclass(frozen=True)
class Known:
    """Something that was found: what else has its words, and is wrong alike, has it, too."""

    target: str
    kind: str
    words: frozenset[str]

    @classmethod
    def of(cls, finding: Finding) -> Known:
        """What is known by a finding."""
        return cls(finding.problem.target, finding.problem.kind, finding.program.words)

    def explains(self, program: Program, target: str, kind: str) -> bool:
        """Whether a program is wrong for this."""
        return (target, kind) == (self.target, self.kind) and self.words <= program.words


def _gist(error: str) -> str:
    """The beginning of an error without names and numbers."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|\w*\d\w*", "#", error)[:80]
