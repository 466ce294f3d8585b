"""The instruction listing of a program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from backends.mlx.execution.delegate import cache_of, executor, handle
from backends.mlx.execution.executor import Executor
from backends.mlx.payload.graph import DELEGATE, Node
from backends.mlx.payload.listing import SHORT, Position, listing
from harness import (
    DelegateHandle,
    DelegatePayload,
    InspectedCell,
    Interpreter,
    RuntimeKernels,
)


@dataclass
class Ran:
    """What one delegate did in the last call.

    Attributes:
        program: the executor.
        results: what each instruction wrote, by its position; the last time it ran.
    """

    program: Executor
    results: dict[Position, list[Any]]

    def see(self, chain: int, at: int, node: Node, tensors: list[Any], values: list[Any]) -> None:
        """Observer of the executor."""
        written = [tensors[slot] for slot in node.writes]
        # A symbolic instruction writes a value slot instead.
        self.results[chain, at] = written or [values[slot] for slot in node.values[-1:]]


def inspect(attempt: InspectedCell) -> Iterator[str]:
    """Lines about the MLX programs of a cell that was lowered.

    Args:
        attempt: the shapes of a stateful sequence are those of its first wrong call.
    """
    delegates = run(attempt, next((row.call for row in attempt.numerics if row.problem), 0))
    if not delegates:
        yield "nothing was delegated to MLX"
    for number, ran in enumerate(delegates):
        seen = {place: list(map(_seen, found)) for place, found in ran.results.items()}
        head, *lines = listing(ran.program.graph, seen)
        yield f"MLX delegate {number}: {head}"
        yield from lines


def run(attempt: InspectedCell, call: int = 0) -> list[Ran]:
    """Run the calls up to ``call`` and keep what the delegates do in that one."""
    delegates: list[Ran] = []

    def load(payload: DelegatePayload) -> DelegateHandle:
        ran = Ran(executor(payload, cache), {})
        delegates.append(ran)
        return handle(ran.program, observer=ran.see)

    program = attempt.lowered.program
    if not program.plan.delegates:
        return []
    cache = cache_of(program)
    interpreter = Interpreter(program, {DELEGATE: load}, RuntimeKernels())
    for inputs in attempt.calls[: call + 1]:
        interpreter(inputs)
    return delegates


def _seen(result: Any) -> str:
    if not isinstance(result, mx.array):
        return f"= {result}"
    name = str(result.dtype).removeprefix("mlx.core.")
    return f"{SHORT.get(name, name)}{list(result.shape)}"
