"""Read a TOSA flatbuffer as plain data: operators in order, tensors, shapes and constants."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy
from tosa import Attribute, DType, Op
from tosa.CastToBlockScaledAttribute import CastToBlockScaledAttribute
from tosa.Conv2dBlockScaledAttribute import Conv2dBlockScaledAttribute
from tosa.MatMulTBlockScaledAttribute import MatMulTBlockScaledAttribute
from tosa.TosaGraph import TosaGraph as TosaGraphTable

from harness import ProgramError


@dataclass(frozen=True)
class TosaTensor:
    """A tensor of the graph.

    Attributes:
        name: unique in the graph.
        dtype: TOSA's name of the type, such as ``FP8E4M3``.
        shape: elements in each dimension, also for types smaller than a byte.
        data: the serialized bytes of a constant; empty otherwise.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: bytes = b""


@dataclass(frozen=True)
class TosaOperator:
    """An operator: TOSA's name, the names of its inputs and outputs, and its block size, if any."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    block_size: int | None = None


@dataclass(frozen=True)
class TosaGraph:
    """All operators of a graph in order, its tensors by name, and its constant shapes by name."""

    operators: tuple[TosaOperator, ...]
    tensors: Mapping[str, TosaTensor]
    shapes: Mapping[str, tuple[int, ...]]


def read_root(data: bytes) -> Any:
    """Return the flatbuffer's root table.

    Raises:
        ProgramError: the payload is not a TOSA graph.
    """
    if len(data) < 8 or not TosaGraphTable.TosaGraphBufferHasIdentifier(data, 0):
        raise ProgramError("the payload of TOSABackend is not a TOSA flatbuffer")
    return TosaGraphTable.GetRootAs(data, 0)


def read_graph(data: bytes) -> TosaGraph:
    """Read the graph of a payload.

    Raises:
        ProgramError: the payload is not a TOSA graph.
    """
    table = read_root(data)
    operators: list[TosaOperator] = []
    tensors: dict[str, TosaTensor] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for region in map(table.Regions, range(table.RegionsLength())):
        for block in map(region.Blocks, range(region.BlocksLength())):
            for tensor in map(block.Tensors, range(block.TensorsLength())):
                tensor_data = _read_tensor(tensor)
                tensors[tensor_data.name] = tensor_data
            for shape in map(block.Shapes, range(block.ShapesLength())):
                data = b"" if shape.DataIsNone() else shape.DataAsNumpy().tobytes()
                shapes[shape.Name().decode()] = tuple(numpy.frombuffer(data, "<i8").tolist())
            operators += map(_read_operator, map(block.Operators, range(block.OperatorsLength())))
    return TosaGraph(tuple(operators), tensors, shapes)


def _read_tensor(table: Any) -> TosaTensor:
    data = b"" if table.DataIsNone() else table.DataAsNumpy().tobytes()
    shape = tuple(map(int, table.ShapeAsNumpy())) if table.ShapeLength() else ()
    return TosaTensor(table.Name().decode(), _names(DType.DType)[table.Type()], shape, data)


_BLOCK_SCALED = {
    Attribute.Attribute.CastToBlockScaledAttribute: CastToBlockScaledAttribute,
    Attribute.Attribute.Conv2dBlockScaledAttribute: Conv2dBlockScaledAttribute,
    Attribute.Attribute.MatMulTBlockScaledAttribute: MatMulTBlockScaledAttribute,
}


def _read_operator(table: Any) -> TosaOperator:
    block_size = None
    if kind := _BLOCK_SCALED.get(table.AttributeType()):
        attribute = kind()
        attribute.Init(table.Attribute().Bytes, table.Attribute().Pos)
        block_size = int(attribute.BlockSize())
    return TosaOperator(
        _names(Op.Op)[table.Op()],
        tuple(table.Inputs(index).decode() for index in range(table.InputsLength())),
        tuple(table.Outputs(index).decode() for index in range(table.OutputsLength())),
        block_size,
    )


@functools.cache
def _names(enumeration: Any) -> dict[int, str]:
    return {value: name for name, value in vars(enumeration).items() if isinstance(value, int)}
