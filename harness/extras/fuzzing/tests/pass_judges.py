"""Judge generated programs by the effect of passes, or by the memory plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig

from harness.errors import describe
from harness.extras.fuzzing.generated_program import GeneratedProgram
from harness.extras.fuzzing.search import Judge, Problem
from harness.extras.fuzzing.tests.memory_plans import find_overlaps, find_use_after_free
from harness.model.recipe import KnownPass
from harness.passes.pass_log import Passes, ProgramRewrite
from harness.passes.properties import PassCheck, check_properties
from harness.pipeline import stages
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
