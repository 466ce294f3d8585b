"""List the MLX instructions of a cell's program, with the shapes that they wrote."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from backends.mlx.execution.delegate import make_cache, make_executor, make_handle
from backends.mlx.execution.executor import MlxExecutor
from backends.mlx.payload.graph import DELEGATE, Node
from backends.mlx.payload.payload_text import SHORT, Position, list_instructions
from harness.backend_api import (
    DelegateHandle,
    DelegatePayload,
    InspectedCell,
    Interpreter,
    RuntimeKernels,
)


@dataclass
class DelegateTrace:
    """The results that one delegate wrote in the last call.

    Attributes:
        program: the executor.
        results: results of each instruction, by its position; of its last execution.
    """

    program: MlxExecutor
    results: dict[Position, list[Any]]

    def record(
        self, chain: int, at: int, node: Node, tensors: list[Any], values: list[Any]
    ) -> None:
        """Record an instruction's results; the executor calls this."""
        written = [tensors[slot] for slot in node.writes]
        # A symbolic instruction writes a value slot instead.
        self.results[chain, at] = written or [values[slot] for slot in node.values[-1:]]


def inspect(attempt: InspectedCell) -> Iterator[str]:
    """Yield lines about the MLX programs of a lowered cell.

    Args:
        attempt: the cell; shapes in a stateful sequence come from its first wrong call.
    """
    call = next((row.call for row in attempt.numerics if row.problem), 0)
    delegates = trace_delegates(attempt, call)
    if not delegates:
        yield "nothing was delegated to MLX"
    for number, delegate in enumerate(delegates):
        results = {
            place: list(map(_format_result, values)) for place, values in delegate.results.items()
        }
        head, *lines = list_instructions(delegate.program.graph, results)
        yield f"MLX delegate {number}: {head}"
        yield from lines


def trace_delegates(attempt: InspectedCell, call: int = 0) -> list[DelegateTrace]:
    """Run the calls up to ``call`` and record the results of its delegates."""
    delegates: list[DelegateTrace] = []

    def load(payload: DelegatePayload) -> DelegateHandle:
        delegate = DelegateTrace(make_executor(payload, cache), {})
        delegates.append(delegate)
        return make_handle(delegate.program, observer=delegate.record)

    program = attempt.lowered.program
    if not program.plan.delegates:
        return []
    cache = make_cache(program)
    interpreter = Interpreter(program, {DELEGATE: load}, RuntimeKernels())
    for inputs in attempt.calls[: call + 1]:
        interpreter(inputs)
    return delegates


def _format_result(result: Any) -> str:
    if not isinstance(result, mx.array):
        return f"= {result}"
    name = str(result.dtype).removeprefix("mlx.core.")
    return f"{SHORT.get(name, name)}{list(result.shape)}"
