"""Read delegates, delegated nodes and fallback nodes from a lowered program."""

from __future__ import annotations

import operator
from collections import Counter, defaultdict
from collections.abc import Iterator

import msgspec
import torch
from executorch.exir import memory
from executorch.exir.delegate import executorch_call_delegate
from executorch.exir.lowered_backend_module import LoweredBackendModule
from torch.export import ExportedProgram

from harness.execution.operators import op_name
from harness.model.fallbacks import is_conversion
from harness.pipeline.delegation.calls import describe_call
from harness.pipeline.explain.rejections import ExplainFallback
from harness.record.cell import Delegation
from harness.record.program_data import OperatorCall


def lowered_modules(program: ExportedProgram) -> Iterator[LoweredBackendModule]:
    """The lowered module behind each delegate call, in call order, control flow included."""
    for graph_module in graph_modules(program.graph_module):
        for node in graph_module.graph.nodes:
            if node.target is executorch_call_delegate:
                yield getattr(graph_module, node.args[0].target)


def count_delegation(
    program: ExportedProgram, why: ExplainFallback | None = None, library: str = ""
) -> Delegation:
    """Count the delegates of a lowered program and the edge operators inside and outside of them.

    ``getitem``, delegate calls and allocations of scratch memory are not operators. Delegated nodes
    are counted in the module that the partitioner cut out, before the backend's passes rewrote it.
    Kernels of the backend's library count as delegated, except those that quantize and dequantize:
    they are left where everything between them runs on portable kernels.

    Args:
        program: the lowered program, before ``to_executorch``.
        why: explains fallback nodes.
        library: namespace of the operators whose kernels are the backend's own; empty for none.
    """
    outside: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    reasons: defaultdict[str, Counter[str]] = defaultdict(Counter)
    calls: set[OperatorCall] = set()
    for graph_module in graph_modules(program.graph_module):
        for node in filter(_is_operator, graph_module.graph.nodes):
            name = op_name(node.target)
            is_own = library and name.startswith(f"{library}.") and not is_conversion(name)
            calls.add(describe_call(node, name, delegated=bool(is_own)))
            if is_own:
                inside[name] += 1
                continue
            outside[name] += 1
            if why is not None and (reason := why(node)) is not None:
                reasons[name][reason] += 1
    delegates = 0
    for lowered in lowered_modules(program):
        delegates += 1
        for graph_module in graph_modules(lowered.original_module.graph_module):
            for node in filter(_is_operator, graph_module.graph.nodes):
                name = op_name(node.target)
                inside[name] += 1
                calls.add(describe_call(node, name, delegated=True))
    return Delegation(
        delegates=delegates,
        delegated_nodes=inside.total(),
        undelegated_nodes=outside.total(),
        delegated_ops=dict(sorted(inside.items())),
        undelegated_ops=dict(sorted(outside.items())),
        reasons={name: dict(found.most_common()) for name, found in sorted(reasons.items())},
        calls=sorted(calls, key=msgspec.structs.astuple),
    )


def _is_operator(node: torch.fx.Node) -> bool:
    return (
        node.op == "call_function"
        and node.target is not operator.getitem
        and node.target is not executorch_call_delegate
        and node.target is not memory.alloc
    )


def graph_modules(module: torch.fx.GraphModule) -> Iterator[torch.fx.GraphModule]:
    """The module and its control-flow branches, without descending into lowered modules."""
    yield module
    for child in module.children():
        if isinstance(child, torch.fx.GraphModule) and not isinstance(child, LoweredBackendModule):
            yield from graph_modules(child)
