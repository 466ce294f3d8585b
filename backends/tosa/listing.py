"""List the operators of a TOSA graph, a line each."""

from __future__ import annotations

from collections.abc import Iterator

from backends.tosa.graph import TosaGraph, read_graph, read_root
from harness import ProgramError


def list_operators(data: bytes) -> Iterator[str]:
    """Yield a line of totals, then a line for each input, output and operator.

    Args:
        data: the payload.

    Raises:
        ProgramError: the payload is not a TOSA graph, or it is damaged.
    """
    try:
        table, graph = read_root(data), read_graph(data)
        version = table.Version()
        numbers = f"{version._Major()}.{version._Minor()}.{version._Patch()}"
        block = table.Regions(0).Blocks(0)
        ends = [
            (role, name(index).decode())
            for role, name, count in (
                ("input", block.Inputs, block.InputsLength()),
                ("output", block.Outputs, block.OutputsLength()),
            )
            for index in range(count)
        ]
        lines = [f"  {role:<7} {_format_tensor(graph, name)}" for role, name in ends]
        lines += [
            f"  {at:>5}  {operator.name:<24} {_format_tensors(graph, operator.outputs)}"
            f"{f' <- {_format_tensors(graph, operator.inputs)}' if operator.inputs else ''}"
            f"{f' block size {operator.block_size}' if operator.block_size else ''}"
            for at, operator in enumerate(graph.operators)
        ]
    except ProgramError:
        raise
    except Exception as error:
        # With an offset outside the bytes, the flatbuffer's accessors raise any kind of error.
        raise ProgramError(f"the TOSA graph cannot be read: {error}") from error
    constants = sum(len(tensor.data) for tensor in graph.tensors.values())
    yield f"TOSA {numbers}, {len(graph.operators)} operators, {constants:,} bytes of constants"
    yield from lines


def _format_tensors(graph: TosaGraph, names: tuple[str, ...]) -> str:
    return ", ".join(_format_tensor(graph, name) for name in names)


def _format_tensor(graph: TosaGraph, name: str) -> str:
    if name in graph.shapes:
        return f"{name} shape{list(graph.shapes[name])}"
    tensor = graph.tensors.get(name)
    return f"{name} {tensor.dtype}{list(tensor.shape)}" if tensor else name
