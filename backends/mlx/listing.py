"""What the delegates of a cell did, and where one first leaves its reference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import torch
from torch.export import ExportedProgram

from backends.mlx.execution.delegate import cache_of, executor, handle, to_torch
from backends.mlx.execution.executor import Executor
from backends.mlx.payload.graph import DELEGATE, Node
from backends.mlx.payload.listing import SHORT, Position, listing
from harness import (
    Attempt,
    DelegateHandle,
    DelegatePayload,
    Interpreter,
    Reference,
    RuntimeKernels,
    refer,
)


@dataclass
class Trace:
    """What one delegate did in the traced call.

    Attributes:
        program: the executor.
        arguments: copies of the tensors and numbers it was called with.
        results: what each instruction wrote, by its position; the last time it ran.
    """

    program: Executor
    arguments: list[Any]
    results: dict[Position, list[Any]]

    def see(self, chain: int, at: int, node: Node, tensors: list[Any], values: list[Any]) -> None:
        """Observer of the executor."""
        written = [tensors[slot] for slot in node.writes]
        # A symbolic instruction writes a value slot instead.
        self.results[chain, at] = written or [values[slot] for slot in node.values[-1:]]


def inspect(attempt: Attempt) -> Iterator[str]:
    """Lines about the MLX programs of a cell that was lowered: listing, then divergence.

    Args:
        attempt: when it was compared and failed, the first instruction that leaves the reference
            is named.
    """
    traces = trace(attempt, next((row.call for row in attempt.numerics if row.problem), 0))
    if not traces:
        yield "nothing was delegated to MLX"
    for number, traced in enumerate(traces):
        seen = {place: list(map(_seen, found)) for place, found in traced.results.items()}
        head, *lines = listing(traced.program.graph, seen)
        yield f"MLX delegate {number}: {head}"
        yield from lines
    if attempt.problem is not None:
        for number, traced in enumerate(traces):
            yield divergence(attempt, number, traced)


def trace(attempt: Attempt, call: int = 0) -> list[Trace]:
    """Run the calls up to ``call`` and record what the delegates do in that one."""
    traces: list[Trace] = []

    def load(payload: DelegatePayload) -> DelegateHandle:
        traced = Trace(executor(payload, cache), [], {})
        traces.append(traced)
        run = handle(traced.program, observer=traced.see)

        def called(arguments: list[Any]) -> None:
            inputs = arguments[: len(traced.program.graph.input_map)]
            traced.arguments = [
                item.clone() if isinstance(item, torch.Tensor) else item for item in inputs
            ]
            run(arguments)

        return called

    program = attempt.lowered.program
    if not program.plan.delegates:
        return []
    cache = cache_of(program)
    interpreter = Interpreter(program, {DELEGATE: load}, RuntimeKernels())
    for inputs in attempt.calls[: call + 1]:
        interpreter(inputs)
    return traces


def _seen(result: Any) -> str:
    if not isinstance(result, mx.array):
        return f"= {result}"
    name = str(result.dtype).removeprefix("mlx.core.")
    return f"{SHORT.get(name, name)}{list(result.shape)}"


def divergence(attempt: Attempt, number: int, traced: Trace) -> str:
    """A sentence that names the first instruction whose result leaves the reference.

    The reference is the graph that was lowered to this delegate, run in float64 on the
    delegate's own inputs, with a bound for every intermediate value.
    """
    # An executor starts from zeros: what a buffer held before the traced call is not known here.
    if traced.program.graph.buffer_map and len(attempt.calls) > 1:
        return f"delegate {number}: no first divergence is searched in a stateful sequence"
    ends, module = _graph_nodes(attempt.lowered.edge, number)
    reference = refer(
        module, [tuple(traced.arguments)], attempt.precision, attempt.seed, attempt.semantics
    )
    for place, (name, at) in enumerate(ends):
        found = traced.results.get((traced.program.graph.main, at))
        if not found or not isinstance(found[-1], mx.array):
            continue
        error = _error(found[-1], reference, place)
        if error:
            node = traced.program.graph.chains[traced.program.graph.main][at]
            return (
                f"delegate {number}: the first result that leaves the reference is that of "
                f"instruction {at}, {node.kind} ({name}): {error}"
            )
    return (
        f"delegate {number}: every instruction agrees with the graph that was lowered to it; what "
        f"differs happened before (a pass, a decomposition) or after it"
    )


def _error(array: mx.array, reference: Reference, place: int) -> str:
    expected, bound = reference.oracle[0][place], reference.bound[0][place]
    actual = to_torch(mx.contiguous(array)).double()
    if actual.numel() != expected.numel():
        return f"{list(array.shape)} where the graph has {list(expected.shape)}"
    off = (actual.reshape(expected.shape) - expected.double()).abs()
    same = (actual.reshape(expected.shape) == expected) | (
        actual.reshape(expected.shape).isnan() & expected.isnan()
    )
    wrong = ~same & ~(off <= bound)
    if not bool(wrong.any()):
        return ""
    return (
        f"{int(wrong.sum())} of {wrong.numel()} elements exceed their bound, "
        f"max abs error {float(off[wrong].max()):.3g}"
    )


def _graph_nodes(
    edge: ExportedProgram, number: int
) -> tuple[list[tuple[str, int]], torch.nn.Module]:
    """The delegate's graph as a module that returns every intermediate value, and for each its
    name and the position of the instruction that completes it."""
    from executorch.backends.mlx.builder.program_builder import MLXProgramBuilder
    from executorch.exir.lowered_backend_module import get_lowered_submodules

    lowered = [
        module
        for _, module, _ in get_lowered_submodules(edge.graph_module)
        if module.backend_id == DELEGATE
    ]
    program = lowered[number].original_module
    ends: dict[str, int] = {}

    class Tracing(MLXProgramBuilder):  # type: ignore[misc]
        """Notes how many instructions there are when a node is done."""

        def _mark_supported(self, nodes: Any, **options: Any) -> None:
            super()._mark_supported(nodes, **options)
            for node in nodes if isinstance(nodes, list) else [nodes]:
                ends[node.name] = len(self._chains[0])

    Tracing(program).build()
    module = program.module(check_guards=False)
    graph = module.graph
    places: list[tuple[str, int]] = []
    values: list[torch.fx.Node] = []
    last = 0
    for node in list(graph.nodes):
        done = ends.get(node.name, last)
        if node.op == "call_function" and done > last:
            last = done
            if isinstance(node.meta.get("val"), torch.Tensor):
                with graph.inserting_after(node):
                    # In-place operators change a value after it was computed.
                    values.append(graph.call_function(torch.ops.aten.clone.default, (node,)))
                places.append((node.name, done - 1))
    output = next(node for node in graph.nodes if node.op == "output")
    output.args = (tuple(values),)
    graph._codegen = torch.fx.graph.CodeGen()
    module.recompile()
    return places, module
