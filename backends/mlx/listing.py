"""The instruction listing of a program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from backends.mlx.execution.delegate import cache_of, executor, handle
from backends.mlx.execution.executor import Executor
from backends.mlx.payload.graph import DELEGATE, Graph, Node, TensorMeta
from harness import (
    Attempt,
    DelegateHandle,
    DelegatePayload,
    Interpreter,
    RuntimeKernels,
    torch_dtype,
)

_SHORT = {
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint32": "u32",
    "uint16": "u16",
    "uint8": "u8",
    "bool": "bool",
}

Position = tuple[int, int]
"""Chain and place of an instruction."""


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


def inspect(attempt: Attempt) -> Iterator[str]:
    """Lines about the MLX programs of a cell that was lowered.

    Args:
        attempt: the shapes of a stateful sequence are those of its first wrong call.
    """
    delegates = run(attempt, next((row.call for row in attempt.numerics if row.problem), 0))
    if not delegates:
        yield "nothing was delegated to MLX"
    for number, ran in enumerate(delegates):
        yield from listing(ran.program.graph, number, ran.results)


def run(attempt: Attempt, call: int = 0) -> list[Ran]:
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


def listing(graph: Graph, number: int, results: Mapping[Position, list[Any]]) -> Iterator[str]:
    """One line a slot of the interface, one an instruction, with the shapes that were seen."""
    yield (
        f"MLX delegate {number}: {sum(map(len, graph.chains))} instructions, "
        f"{graph.constants} constants, {graph.buffers} mutable buffers, "
        f"{graph.temporaries} temporaries, {graph.values} values"
    )
    for role, slots in (
        ("input", graph.input_map),
        ("output", graph.output_map),
        ("buffer", graph.buffer_map),
    ):
        for slot in slots:
            name = f"{'t' if slot.kind == 'tensor' else 'v'}{slot.index}"
            meta = graph.declared(slot.index) if slot.kind == "tensor" else None
            yield f"  {role:<8} {name:<6} {_declared(meta) if meta else slot.kind}"
    for constant in range(graph.constants):
        meta = graph.declared(constant)
        name = graph.names.get(constant, "")
        yield f"  constant t{constant:<5} {_declared(meta) if meta else '?'} {name}"
    for chain, nodes in enumerate(graph.chains):
        role = {graph.main: " (main)", graph.init: " (init)"}.get(chain, "")
        yield f"  chain {chain}{role}"
        for at, node in enumerate(nodes):
            yield _line(at, node, results.get((chain, at)))


def _line(at: int, node: Node, results: list[Any] | None) -> str:
    written: list[Any] = list(node.writes) or node.values[-1:]
    shown = [
        f"{slot!r}{' ' + _seen(result) if result is not None else ''}"
        for slot, result in zip(written, results or [None] * len(written), strict=False)
    ]
    operands = [
        f"{name}={value!r}"
        for name, value in node.fields.items()
        if value is not None and name not in ("out", "outs")
    ]
    place = " in place" if any(slot in node.reads for slot in node.writes) else ""
    head = f"  {at:>5}  {node.kind.removesuffix('Node'):<16} {', '.join(shown)}"
    return f"{head} <- {' '.join(operands)}{place}"


def _seen(result: Any) -> str:
    if not isinstance(result, mx.array):
        return f"= {result}"
    name = str(result.dtype).removeprefix("mlx.core.")
    return f"{_SHORT.get(name, name)}{list(result.shape)}"


def _declared(meta: TensorMeta) -> str:
    name = str(torch_dtype(meta.scalar_type)).removeprefix("torch.")
    return f"{_SHORT.get(name, name)}[{', '.join(map(str, meta.shape))}]"
