"""Choose the calls of a program, and find the state that it writes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.export import ExportedProgram

from harness.model.case import CallInputs
from harness.numerics.module_runs import EagerRuns
from harness.vendors.torch import OpOverload, tree_leaves

MOST_FURTHER_CALLS = 3
LARGE_STATE = 2**20
"""Elements of state from which on one further call has to do."""


def add_observing_calls(
    runs: EagerRuns,
    module: torch.nn.Module,
    exported: ExportedProgram,
    calls: Sequence[CallInputs],
) -> Sequence[CallInputs]:
    """Repeat the last call if state is written.

    Runtimes do not return buffers, so the state after the last call shows only in another call. A
    value that passes through several buffers, as in a delay line, needs a call for each of them.

    Args:
        runs: eager runs, made earlier or here.
        module: the module of the reference.
        exported: its program. State counts as written if either of them writes.
        calls: inputs of each call.

    Returns:
        The unchanged calls if no state is written, or if the module rejects another call, such as
        a full cache. Otherwise one call more for each buffer that is written, at most
        ``MOST_FURTHER_CALLS``, and one for a large state.
    """
    if not writes_state(exported) and not _eager_writes(runs, module, calls):
        return calls
    written = len(find_written_buffers(exported))
    large = sum(buffer.numel() for buffer in module.buffers()) > LARGE_STATE
    for number in range(1 if large else min(max(written, 1), MOST_FURTHER_CALLS), 0, -1):
        further = [*calls, *[calls[-1]] * number]
        try:
            runs(module, further)
        except Exception:  # a module may raise any error
            continue
        return further
    return calls


def _eager_writes(runs: EagerRuns, module: torch.nn.Module, calls: Sequence[CallInputs]) -> bool:
    if next(module.buffers(), None) is None:
        return False
    return any(call.wrote_state for call in runs(module, calls))


def writes_state(exported: ExportedProgram) -> bool:
    """Whether a program has state and an operator that writes to an argument."""
    if not exported.graph_signature.buffers and not exported.graph_signature.parameters:
        return False
    return any(
        isinstance(node.target, OpOverload) and node.target._schema.is_mutable
        for part in exported.graph_module.modules()
        if isinstance(part, torch.fx.GraphModule)
        for node in part.graph.nodes
    )


def find_written_buffers(exported: ExportedProgram) -> set[str]:
    """The names of the buffers that operators of an ATen program write to, directly or by views."""
    buffers = exported.graph_signature.inputs_to_buffers
    written: set[str] = set()
    for node in exported.graph.nodes:
        if not isinstance(node.target, OpOverload) or not node.target._schema.is_mutable:
            continue
        for place, argument in enumerate(node.target._schema.arguments):
            if argument.is_write:
                given = node.args[place] if place < len(node.args) else node.kwargs[argument.name]
                nodes = (one for one in tree_leaves(given) if isinstance(one, torch.fx.Node))
                written.update(map(_source, nodes))
    return {buffers[name] for name in written if name in buffers}


def _source(node: torch.fx.Node) -> str:
    """The name of the node that a view is made from, its first argument."""
    while node.op == "call_function" and node.args and isinstance(node.args[0], torch.fx.Node):
        node = node.args[0]
    return node.name
