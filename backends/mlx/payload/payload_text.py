"""List the instructions of a payload as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType
from typing import Any

from backends.mlx.payload.graph import MlxGraph, MlxTensorMeta, Node
from harness.backend_api import torch_dtype

SHORT = {
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
"""Chain of an instruction, and its index in the chain."""

NO_RESULTS: Mapping[Position, Sequence[str]] = MappingProxyType({})


def list_instructions(
    graph: MlxGraph, results: Mapping[Position, Sequence[str]] = NO_RESULTS
) -> Iterator[str]:
    """Yield a line of totals, then a line for each input, output, buffer, constant, instruction.

    Args:
        graph: the program.
        results: for each instruction that ran, a text for each of its outputs.
    """
    yield (
        f"{sum(map(len, graph.chains))} instructions, {graph.constants} constants, "
        f"{graph.buffers} mutable buffers, {graph.temporaries} temporaries, {graph.values} values"
    )
    for role, slots in (
        ("input", graph.input_map),
        ("output", graph.output_map),
        ("buffer", graph.buffer_map),
    ):
        for slot in slots:
            name = f"{'t' if slot.kind == 'tensor' else 'v'}{slot.index}"
            meta = graph.get_meta(slot.index) if slot.kind == "tensor" else None
            yield f"  {role:<8} {name:<6} {_format_meta(meta) if meta else slot.kind}"
    for constant in range(graph.constants):
        meta = graph.get_meta(constant)
        name = graph.names.get(constant, "")
        yield f"  constant t{constant:<5} {_format_meta(meta) if meta else '?'} {name}"
    for chain, nodes in enumerate(graph.chains):
        role = {graph.main: " (main)", graph.init: " (init)"}.get(chain, "")
        yield f"  chain {chain}{role}"
        for at, node in enumerate(nodes):
            yield _format_instruction(at, node, results.get((chain, at), ()))


def _format_instruction(at: int, node: Node, results: Sequence[str]) -> str:
    slots: list[Any] = list(node.writes) or node.values[-1:]
    outputs = [
        f"{slot!r} {text}".rstrip() for slot, text in zip_longest(slots, results, fillvalue="")
    ]
    operands = [
        f"{name}={value!r}"
        for name, value in node.fields.items()
        if value is not None and name not in ("out", "outs")
    ]
    place = " in place" if any(slot in node.reads for slot in node.writes) else ""
    head = f"  {at:>5}  {node.kind.removesuffix('Node'):<16} {', '.join(outputs)}"
    return f"{head} <- {' '.join(operands)}{place}"


def _format_meta(meta: MlxTensorMeta) -> str:
    name = str(torch_dtype(meta.scalar_type)).removeprefix("torch.")
    return f"{SHORT.get(name, name)}[{', '.join(map(str, meta.shape))}]"
