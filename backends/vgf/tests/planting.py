"""Plant faults in the TOSA graphs that Arm's lowering passes to the converter."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
from executorch.backends.arm.vgf import backend as vendor
from tosa.Conv2dAttribute import Conv2dAttribute
from tosa.Op import Op
from tosa.ReverseAttribute import ReverseAttribute
from tosa.TosaGraph import TosaGraph
from tosa.TransposeAttribute import TransposeAttribute

Fault = Callable[[Any, Any], None]
"""Changes an operator in place; gets the operator and its block."""


def plant(monkeypatch: pytest.MonkeyPatch, operator: str, fault: Fault) -> list[str]:
    """Change the first operator of that name in each graph; return a list that gets its name."""
    unaltered = vendor.vgf_compile
    changed: list[str] = []

    def compile_altered(graph: bytes, *args: Any) -> bytes:
        data = bytearray(graph)
        block = TosaGraph.GetRootAs(data, 0).Regions(0).Blocks(0)
        for each in list_operators(block):
            if each.Op() == getattr(Op, operator):
                fault(each, block)
                changed.append(operator)
                break
        assert len(data) == len(graph)
        assert not changed or data != graph, "the fault changes nothing"
        return unaltered(bytes(data), *args)

    monkeypatch.setattr(vendor, "vgf_compile", compile_altered)
    return changed


def list_operators(block: Any) -> Iterator[Any]:
    return map(block.Operators, range(block.OperatorsLength()))


def change_constant(
    operand: int, dtype: str, change: Callable[[numpy.ndarray[Any, Any]], Any]
) -> Fault:
    """Replace the elements of an operand, which must be a constant."""

    def fault(operator: Any, block: Any) -> None:
        name = operator.Inputs(operand)
        tensor = next(
            each for each in map(block.Tensors, range(block.TensorsLength())) if each.Name() == name
        )
        stored = tensor.DataAsNumpy().view(dtype)
        stored = stored.reshape(tuple(tensor.ShapeAsNumpy()))
        stored[...] = change(stored.copy())

    return fault


def swap_inputs(operator: Any, block: Any) -> None:
    """Exchange the first two inputs: offsets are relative to their own place."""
    table = operator._tab
    start = table.Vector(table.Offset(10))
    assert operator.Inputs(0) != operator.Inputs(1)
    first, second = struct.unpack_from("<2I", table.Bytes, start)
    struct.pack_into("<2I", table.Bytes, start, second + 4, first - 4)


def change_padding(operator: Any, block: Any) -> None:
    """Move a row of padding from one side to the other."""
    padding = _read_attribute(operator, Conv2dAttribute).PadAsNumpy()
    padding[:2] = padding[0] - 1, padding[1] + 1


def change_axis(operator: Any, block: Any) -> None:
    """Take the dimension before."""
    table = _read_attribute(operator, ReverseAttribute)._tab
    at = table.Pos + table.Offset(4)
    (axis,) = struct.unpack_from("<i", table.Bytes, at)
    struct.pack_into("<i", table.Bytes, at, axis - 1)


def change_order(operator: Any, block: Any) -> None:
    """Exchange the last two places of a permutation."""
    places = _read_attribute(operator, TransposeAttribute).PermsAsNumpy()
    places[-2:] = places[-2:][::-1].copy()


def _read_attribute(operator: Any, kind: type[Any]) -> Any:
    attribute = kind()
    attribute.Init(operator.Attribute().Bytes, operator.Attribute().Pos)
    return attribute
