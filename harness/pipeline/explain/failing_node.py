"""Find the node of a program at which a stage failed.

The node is in the frames of the traceback, or in an error of the runtime, which names an
instruction, a kernel, an input or a node of a delegate.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Sequence

from executorch.exir.delegate import executorch_call_delegate
from msgspec.structs import replace
from torch.export import ExportedProgram
from torch.fx import Node

from harness.errors import MissingKernels, StageFailure, StageOrderError
from harness.execution.native.runtime_log import find_instruction
from harness.execution.operators import op_name
from harness.pipeline.delegation.count import graph_modules, lowered_modules
from harness.pipeline.explain.model_frames import exception_chain
from harness.pipeline.explain.node_origin import (
    find_nearest_source,
    format_arguments,
    format_value,
    get_module_path,
    get_operator_name,
)
from harness.pipeline.explain.raising_node import find_raising_node
from harness.pipeline.tester import Tester
from harness.record.program_data import Divergence
from harness.vendors.torch import TreeSpec

_KERNEL = re.compile(r"at instruction 0:\d+ in operator ([\w:.]+)")
_INPUT = re.compile(r"\b[Ii]nput (\d+) (?:for|of) method")
# XNNPACK's compiler names a node by its debug handle.
_DELEGATED = re.compile(r"Failed to create [\w ]+? node (\d+)")


def find_failing_node(tester: Tester, failure: StageFailure) -> Divergence | None:
    """Find the node at which a stage failed, without running anything.

    Args:
        tester: the tester of the cell.
        failure: a failure of any stage.
    """
    try:
        return _find_failing_node(tester, failure)
    except Exception:  # graphs and errors may be in any state
        return None


def describe_node(
    node: Node, stage: str, *, op: str = "", arguments: Sequence[str] = (), note: str = ""
) -> Divergence:
    """Describe a failing node for the record.

    Args:
        node: the node.
        stage: the stage that fails at it.
        op: used instead of its operator.
        arguments: used instead of its arguments in the graph.
        note: how it was found.
    """
    return Divergence(
        node=node.name,
        op=op or get_operator_name(node),
        module=get_module_path(node),
        source=find_nearest_source(node),
        arguments=tuple(arguments) or tuple(format_arguments(node)),
        stage=stage,
        note=note,
        fails=True,
    )


def _find_failing_node(tester: Tester, failure: StageFailure) -> Divergence | None:
    stage, cause = failure.stage, failure.cause
    if stage == "run" and (found := _find_in_runtime_error(tester, cause)) is not None:
        return found
    raising = find_raising_node(cause)
    if raising is not None:
        node, values = _find_computing_node(raising.node), raising.values
        found = describe_node(
            node, stage, op=_operator(node), arguments=format_arguments(node, values)
        )
        return found if found.source else _add_source(tester, found)
    if stage == "to_executorch" and _is_output_failure(cause):
        return _find_output_node(tester)
    return None


def _find_computing_node(node: Node) -> Node:
    """The node that a quantize or dequantize node belongs to.

    It is the node that computes the value; for a weight, the node that reads it.
    """
    current = node
    while "quantize" in op_name(current.target):
        made = [each for each in current.all_input_nodes[:1] if each.op == "call_function"]
        if not made:
            break
        current = made[0]
    else:
        return current
    current = node
    while "quantize" in op_name(current.target):
        readers = [each for each in current.users if each.op == "call_function"]
        if not readers:
            return node
        current = readers[0]
    return current


def _add_source(tester: Tester, found: Divergence) -> Divergence:
    """Add the line of the model from the node with the same name in an earlier graph.

    A pass may make nodes without metadata.
    """
    for node in _nodes(tester):
        if node.name == found.node and (source := find_nearest_source(node)):
            return replace(found, source=source, module=found.module or get_module_path(node))
    return found


def _nodes(tester: Tester) -> Iterator[Node]:
    """The nodes of all graphs of a tester, delegates' graphs included, latest graph first."""
    for name in ("lowered", "exported"):
        try:
            form = getattr(tester, name)
        except StageOrderError:
            continue
        program = form if isinstance(form, ExportedProgram) else form.exported_program()
        for taken in lowered_modules(program):
            yield from taken.original_module.graph.nodes
        for module in graph_modules(program.graph_module):
            yield from module.graph.nodes


def _find_in_runtime_error(tester: Tester, cause: BaseException) -> Divergence | None:
    emitted = tester.executorch_program.exported_program()
    if isinstance(cause, MissingKernels):
        return _find_missing_kernel(emitted, cause.names)
    text = str(cause)
    if (named := _DELEGATED.search(text)) is not None:
        return _find_by_debug_handle(emitted, int(named[1]))
    if (instruction := find_instruction(cause)) is not None:
        # getitem nodes keep the debug handle that they had before to_executorch.
        found = [
            node
            for node in _calls(emitted)
            if node.meta.get("debug_handle") == instruction and node.target is not operator.getitem
        ]
        kernel = _KERNEL.search(text)
        names = {kernel[1].replace("::", ".")} if kernel is not None else set()
        found.sort(key=lambda node: not _is_named(op_name(node.target), names))
        if found:
            return describe_node(found[0], "run", op=_operator(found[0]))
    if (named := _INPUT.search(text)) is not None:
        return _find_input(tester.exported, int(named[1]))
    return None


def _find_missing_kernel(program: ExportedProgram, kernels: Sequence[str]) -> Divergence | None:
    """The first node that calls a missing kernel."""
    names = {kernel.replace("::", ".") for kernel in kernels}
    for module in graph_modules(program.graph_module):
        for node in module.graph.nodes:
            if node.op == "call_function" and _is_named(op_name(node.target), names):
                return describe_node(node, "run")
    return None


def _is_named(name: str, names: set[str]) -> bool:
    return name in names or name.removesuffix(".default") in names


def _find_by_debug_handle(program: ExportedProgram, handle: int) -> Divergence | None:
    """The delegated node with a debug handle, if only one delegate has that handle."""
    found = [
        node
        for lowered in lowered_modules(program)
        for node in lowered.original_module.graph.nodes
        if node.op == "call_function" and node.meta.get("debug_handle") == handle
    ]
    return describe_node(found[0], "run") if len(found) == 1 else None


def _find_input(program: ExportedProgram, position: int) -> Divergence | None:
    """Describe an input of the program and the first node that reads it."""
    inputs = program.graph_signature.user_inputs
    if position >= len(inputs):
        return None
    node = next(each for each in program.graph.nodes if each.name == inputs[position])
    reader = next((each for each in node.users if each.op == "call_function"), None)
    if reader is None:
        return None
    return Divergence(
        node=node.name,
        op=f"input {position}, read by {get_operator_name(reader)}",
        module=get_module_path(reader),
        source=find_nearest_source(reader),
        arguments=(format_value(node.meta.get("val")),),
        stage="run",
        fails=True,
    )


def _is_output_failure(cause: BaseException) -> bool:
    """Whether the emitter failed at the tree of outputs."""
    for link in exception_chain(cause):
        trace = link.__traceback__
        while trace is not None:
            name = trace.tb_frame.f_code.co_name
            held = trace.tb_frame.f_locals.values()
            if "treespec" in name and any(isinstance(each, TreeSpec) for each in held):
                return True
            trace = trace.tb_next
    return False


def _find_output_node(tester: Tester) -> Divergence | None:
    """The first node that the program returns."""
    output = tester.exported.graph.output_node()
    names = set(tester.exported.graph_signature.user_outputs)
    made = (each for each in output.all_input_nodes if each.name in names)
    node = next((each for each in made if each.op == "call_function"), None)
    return None if node is None else describe_node(node, "to_executorch")


def _calls(program: ExportedProgram) -> list[Node]:
    return [node for node in program.graph.nodes if node.op == "call_function"]


def _operator(node: Node) -> str:
    """The operator of a node; for a delegate call, the backend and its delegated nodes."""
    if node.target is not executorch_call_delegate:
        return get_operator_name(node)
    owner, name = node.graph.owning_module, node.args[0]
    lowered = getattr(owner, str(getattr(name, "target", "")))
    taken = [each for each in lowered.original_module.graph.nodes if each.op == "call_function"]
    if len(taken) == 1:
        return f"{get_operator_name(taken[0])} in {lowered.backend_id}"
    return f"{lowered.backend_id}, {len(taken)} nodes from {taken[0].name} to {taken[-1].name}"
