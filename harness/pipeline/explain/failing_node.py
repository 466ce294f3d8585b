"""Which node of a program a failure is about: from the frames of the traceback, or from what the
runtime says, which names an instruction, a kernel, an input or a node of a delegate's."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Sequence

from executorch.exir.delegate import executorch_call_delegate
from msgspec.structs import replace
from torch.export import ExportedProgram
from torch.fx import Node

from harness.errors import MissingKernels, StageFailure, StageOrderError
from harness.execution.native.runtime_log import instruction_of
from harness.execution.operators import op_name
from harness.pipeline.delegation import graph_modules, lowered_modules
from harness.pipeline.explain.model_frames import chain_of
from harness.pipeline.explain.node_origin import (
    arguments_of,
    module_of,
    nearest_source,
    operator_of,
    spell_value,
)
from harness.pipeline.explain.raising_node import raising_node
from harness.pipeline.tester import Tester
from harness.record.cell import Divergence
from harness.vendors.torch import TreeSpec

_KERNEL = re.compile(r"at instruction 0:\d+ in operator ([\w:.]+)")
_INPUT = re.compile(r"\b[Ii]nput (\d+) (?:for|of) method")
# XNNPACK's compiler names a node by its debug handle.
_DELEGATED = re.compile(r"Failed to create [\w ]+? node (\d+)")


def failing_node(tester: Tester, failure: StageFailure) -> Divergence | None:
    """The node that a stage failed at, where that can be told without trying anything.

    Args:
        tester: as far as it came.
        failure: of any stage.
    """
    try:
        return _failing(tester, failure)
    except Exception:  # a graph or an error may have any state; then nothing is named
        return None


def place(
    node: Node, stage: str, *, op: str = "", arguments: Sequence[str] = (), note: str = ""
) -> Divergence:
    """What a record keeps of a node that fails.

    Args:
        node: the node.
        stage: that fails at it.
        op: instead of its operator.
        arguments: instead of what the graph says that it is called with.
        note: how it was found.
    """
    return Divergence(
        node=node.name,
        op=op or operator_of(node),
        module=module_of(node),
        source=nearest_source(node),
        arguments=tuple(arguments) or tuple(arguments_of(node)),
        stage=stage,
        note=note,
        fails=True,
    )


def _failing(tester: Tester, failure: StageFailure) -> Divergence | None:
    stage, cause = failure.stage, failure.cause
    if stage == "run" and (found := _said_by_the_runtime(tester, cause)) is not None:
        return found
    raising = raising_node(cause)
    if raising is not None:
        node, values = _computing(raising.node), raising.values
        found = place(node, stage, op=_operator(node), arguments=arguments_of(node, values))
        return found if found.source else _sourced(tester, found)
    if stage == "to_executorch" and _writes_outputs(cause):
        return _outputs(tester)
    return None


def _computing(node: Node) -> Node:
    """The node that a conversion to or from codes belongs to: that which makes the value, else that
    which reads it, as of a weight."""
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


def _sourced(tester: Tester, found: Divergence) -> Divergence:
    """A node without a line of the model, with that of the node of its name in an earlier graph: a
    pass may make nodes without metadata."""
    for node in _nodes(tester):
        if node.name == found.node and (source := nearest_source(node)):
            return replace(found, source=source, module=found.module or module_of(node))
    return found


def _nodes(tester: Tester) -> Iterator[Node]:
    """The nodes of all graphs of a tester that are there, delegates' included, latest first."""
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


def _said_by_the_runtime(tester: Tester, cause: BaseException) -> Divergence | None:
    emitted = tester.executorch_program.exported_program()
    if isinstance(cause, MissingKernels):
        return _without_kernel(emitted, cause.names)
    text = str(cause)
    if (named := _DELEGATED.search(text)) is not None:
        return _of_delegate(emitted, int(named[1]))
    if (instruction := instruction_of(cause)) is not None:
        # Elements of a result keep the handle that they had before they were emitted.
        found = [
            node
            for node in _calls(emitted)
            if node.meta.get("debug_handle") == instruction and node.target is not operator.getitem
        ]
        kernel = _KERNEL.search(text)
        names = {kernel[1].replace("::", ".")} if kernel is not None else set()
        found.sort(key=lambda node: not _is_named(op_name(node.target), names))
        if found:
            return place(found[0], "run", op=_operator(found[0]))
    if (named := _INPUT.search(text)) is not None:
        return _input(tester.exported, int(named[1]))
    return None


def _without_kernel(program: ExportedProgram, kernels: Sequence[str]) -> Divergence | None:
    """The first call of a kernel that is missing."""
    names = {kernel.replace("::", ".") for kernel in kernels}
    for module in graph_modules(program.graph_module):
        for node in module.graph.nodes:
            if node.op == "call_function" and _is_named(op_name(node.target), names):
                return place(node, "run")
    return None


def _is_named(name: str, names: set[str]) -> bool:
    return name in names or name.removesuffix(".default") in names


def _of_delegate(program: ExportedProgram, handle: int) -> Divergence | None:
    """The node that a delegate names by its debug handle, where one delegate alone has it."""
    found = [
        node
        for lowered in lowered_modules(program)
        for node in lowered.original_module.graph.nodes
        if node.op == "call_function" and node.meta.get("debug_handle") == handle
    ]
    return place(found[0], "run") if len(found) == 1 else None


def _input(program: ExportedProgram, position: int) -> Divergence | None:
    """An input of the program, with the first node that reads it."""
    inputs = program.graph_signature.user_inputs
    if position >= len(inputs):
        return None
    node = next(each for each in program.graph.nodes if each.name == inputs[position])
    reader = next((each for each in node.users if each.op == "call_function"), None)
    if reader is None:
        return None
    return Divergence(
        node=node.name,
        op=f"input {position}, read by {operator_of(reader)}",
        module=module_of(reader),
        source=nearest_source(reader),
        arguments=(spell_value(node.meta.get("val")),),
        stage="run",
        fails=True,
    )


def _writes_outputs(cause: BaseException) -> bool:
    """Whether the emitter failed at the tree of the outputs."""
    for link in chain_of(cause):
        trace = link.__traceback__
        while trace is not None:
            name = trace.tb_frame.f_code.co_name
            held = trace.tb_frame.f_locals.values()
            if "treespec" in name and any(isinstance(each, TreeSpec) for each in held):
                return True
            trace = trace.tb_next
    return False


def _outputs(tester: Tester) -> Divergence | None:
    """The first node that is returned."""
    output = tester.exported.graph.output_node()
    names = set(tester.exported.graph_signature.user_outputs)
    made = (each for each in output.all_input_nodes if each.name in names)
    node = next((each for each in made if each.op == "call_function"), None)
    return None if node is None else place(node, "to_executorch")


def _calls(program: ExportedProgram) -> list[Node]:
    return [node for node in program.graph.nodes if node.op == "call_function"]


def _operator(node: Node) -> str:
    """What a node calls; of a delegate, whose it is and what it took: its operator where that is
    one."""
    if node.target is not executorch_call_delegate:
        return operator_of(node)
    owner, name = node.graph.owning_module, node.args[0]
    lowered = getattr(owner, str(getattr(name, "target", "")))
    taken = [each for each in lowered.original_module.graph.nodes if each.op == "call_function"]
    if len(taken) == 1:
        return f"{operator_of(taken[0])} in {lowered.backend_id}"
    return f"{lowered.backend_id}, {len(taken)} nodes from {taken[0].name} to {taken[-1].name}"
