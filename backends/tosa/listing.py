"""The operators of a TOSA graph, a line each."""

from __future__ import annotations

from collections.abc import Iterator

from backends.tosa.graph import Graph, read, root
from harness import ProgramError


def listing(data: bytes) -> Iterator[str]:
    """A line that counts, one a tensor of the interface, one an operator.

    Args:
        data: the payload.

    Raises:
        ProgramError: it is not a TOSA graph, or a damaged one.
    """
    try:
        table, graph = root(data), read(data)
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
        lines = [f"  {role:<7} {_tensor(graph, name)}" for role, name in ends]
        lines += [
            f"  {at:>5}  {operator.name:<24} {_named(graph, operator.outputs)}"
            f"{f' <- {_named(graph, operator.inputs)}' if operator.inputs else ''}"
            f"{f' block size {operator.block_size}' if operator.block_size else ''}"
            for at, operator in enumerate(graph.operators)
        ]
    except ProgramError:
        raise
    except Exception as error:
        # The flatbuffer's accessors raise whatever an offset beyond the bytes leads to.
        raise ProgramError(f"the TOSA graph cannot be read: {error}") from error
    constants = sum(len(tensor.data) for tensor in graph.tensors.values())
    yield f"TOSA {numbers}, {len(graph.operators)} operators, {constants:,} bytes of constants"
    yield from lines


def _named(graph: Graph, names: tuple[str, ...]) -> str:
    return ", ".join(_tensor(graph, name) for name in names)


def _tensor(graph: Graph, name: str) -> str:
    if name in graph.shapes:
        return f"{name} shape{list(graph.shapes[name])}"
    tensor = graph.tensors.get(name)
    return f"{name} {tensor.dtype}{list(tensor.shape)}" if tensor else name
