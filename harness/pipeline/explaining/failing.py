"""At which node a program that was made fails to execute."""

from __future__ import annotations

from executorch.exir.delegate import executorch_call_delegate
from torch.fx import Node

from harness.errors import StageFailure
from harness.execution.native.log import instruction_of
from harness.execution.operators import op_name
from harness.pipeline.explaining.origin import module_of, source_of
from harness.pipeline.tester import Tester
from harness.record.cell import Divergence


def failing_node(tester: Tester, failure: StageFailure) -> Divergence | None:
    """The node whose instruction fails, where the runtime or the interpreter names it.

    Args:
        tester: its program is emitted: that writes into each node the instruction that it became.
        failure: of stage ``run``.
    """
    instruction = instruction_of(failure.cause)
    if failure.stage != "run" or instruction is None:
        return None
    program = tester.executorch_program.exported_program()
    for node in program.graph.nodes:
        if node.op == "call_function" and node.meta.get("debug_handle") == instruction:
            return Divergence(
                node=node.name,
                op=_operator(node),
                module=module_of(node),
                source=source_of(node),
                fails=True,
            )
    return None


def _operator(node: Node) -> str:
    """What a node calls; of a delegate, whose it is and what it took."""
    if node.target is not executorch_call_delegate:
        return op_name(node.target)
    owner, name = node.graph.owning_module, node.args[0]
    lowered = getattr(owner, str(getattr(name, "target", "")))
    nodes = lowered.original_module.graph.nodes
    taken = [each.name for each in nodes if each.op == "call_function"]
    return f"{lowered.backend_id}, {len(taken)} nodes from {taken[0]} to {taken[-1]}"
