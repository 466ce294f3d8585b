"""Avoid a ``flatc`` process for each XNNPACK payload.

Upstream writes a delegate's graph as JSON and runs ``flatc`` to create a FlatBuffer, which parses
the schema again for each of an LSTM's two dozen delegates: 10 ms, as long as a pass. This module
uses the builder of the ``flatbuffers`` package.

Assumes ``flatc``'s order: values of a table's fields before the table, in the order of JSON; then
the table's fields, the largest first, and of equal sizes the last first. Verified by digests of the
serializer, ``flatc``'s caller and the builder (``originals``); tests compare bytes. Other values
are left to ``flatc``.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
import struct
import subprocess
import tempfile
from collections.abc import Callable, Hashable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, cast

import flatbuffers
import numpy
from executorch.backends.xnnpack.serialization import xnnpack_graph_serialize as upstream
from executorch.exir._serialize import _flatbuffer
from flatbuffers import number_types

from harness.pipeline.speed.delegates import flatc_schema
from harness.pipeline.speed.delegates.flatc_schema import (
    BaseType,
    FlatbufferSchema,
    NotSerializable,
    SchemaField,
)
from harness.vendors.replacements import AttributeReplacer

_upstream: Callable[[Any], bytes] = upstream.convert_to_flatbuffer
_OFFSET = 4  # bytes of an offset
_INFINITE = ("-inf", "+inf", "inf")  # JSON has no such numbers
_NORMAL = numpy.finfo(numpy.float32)
_HALFWAY, _BELOW_FLOAT = 1 << 28, (1 << 29) - 1

_FLAGS: dict[BaseType, Any] = {
    BaseType.UTYPE: number_types.Uint8Flags,
    BaseType.BOOL: number_types.BoolFlags,
    BaseType.BYTE: number_types.Int8Flags,
    BaseType.UBYTE: number_types.Uint8Flags,
    BaseType.SHORT: number_types.Int16Flags,
    BaseType.USHORT: number_types.Uint16Flags,
    BaseType.INT: number_types.Int32Flags,
    BaseType.UINT: number_types.Uint32Flags,
    BaseType.LONG: number_types.Int64Flags,
    BaseType.ULONG: number_types.Uint64Flags,
    BaseType.FLOAT: number_types.Float32Flags,
}


class _Builder(flatbuffers.Builder):  # type: ignore[misc]
    """A builder whose tables share a vtable only if they have the same size, as ``flatc``'s do."""

    def __init__(self) -> None:
        super().__init__(1024)
        self.vtables = _SharedVtables(self)


class _SharedVtables(dict[Any, int]):
    """Positions of written vtables, by table size and offsets."""

    def __init__(self, builder: _Builder) -> None:
        self._builder, self._size = builder, 0

    def get(self, offsets: Any, default: Any = None) -> Any:
        """Look up a vtable; the builder calls it at the end of each table."""
        self._size = self._builder.Offset() - self._builder.objectEnd
        return super().get((self._size, offsets), default)

    def __setitem__(self, offsets: Any, at: int) -> None:
        super().__setitem__((self._size, offsets), at)


class _PayloadWriter:
    """Serializes one payload.

    Args:
        of: the schema.
    """

    def __init__(self, of: FlatbufferSchema) -> None:
        self._schema = of
        self._builder = _Builder()

    def write(self, graph: Any) -> bytes:
        """Serialize a dataclass as the schema's root table.

        Raises:
            NotSerializable: a value does not have exactly its field's type.
            KeyError: the schema lacks a field of the dataclass.
        """
        root = self._write_table(self._schema.root, graph)
        self._builder.Finish(root, self._schema.identifier)
        return bytes(self._builder.Output())

    def _write_table(self, number: int, one: Any) -> int:
        fields, kind = self._schema.tables[number], cast(Any, type(one))
        placed: list[tuple[int, SchemaField, int | float]] = []
        for name in _list_fields(kind):
            field, value = fields[name], getattr(one, name)
            if field.is_deprecated and (value is not None or field.base in _FLAGS):
                raise NotSerializable(name)
            if field.base is BaseType.UNION:
                member, table = self._schema.unions[field.number][type(value).__name__]
                placed.append((_OFFSET, field, self._write_table(table, value)))
                placed.append((1, fields[f"{name}_type"], member))
            elif field.base in _FLAGS:
                placed.append(
                    (_FLAGS[field.base].bytewidth, field, _convert_number(field.base, value))
                )
            elif value is not None:
                placed.append((_OFFSET, field, self._write_value(field, value)))
        placed.sort(key=lambda each: (each[0], each[1].slot), reverse=True)
        return self._write_fields(placed)

    def _write_fields(self, placed: list[tuple[int, SchemaField, int | float]]) -> int:
        builder = self._builder
        builder.StartObject(1 + max((field.slot for _, field, _ in placed), default=-1))
        for _, field, value in placed:
            if (flags := _FLAGS.get(field.base)) is None:
                builder.PrependUOffsetTRelativeSlot(field.slot, value, 0)
            else:
                builder.PrependSlot(flags, field.slot, value, flags.py_type(field.default))
        offset: int = builder.EndObject()
        return offset

    def _write_value(self, field: SchemaField, value: Any) -> int:
        offset: int
        if field.base is BaseType.TABLE:
            offset = self._write_table(field.number, value)
        elif field.base is BaseType.STRING and type(value) is str:
            offset = self._builder.CreateString(value)
        elif field.base is BaseType.VECTOR and type(value) in (list, tuple):
            offset = self._write_vector(field, value)
        else:
            raise NotSerializable(type(value).__name__)
        return offset

    def _write_vector(self, field: SchemaField, values: Sequence[Any]) -> int:
        builder = self._builder
        if field.element is BaseType.TABLE:
            tables = [self._write_table(field.number, each) for each in values]
            builder.StartVector(_OFFSET, len(tables), _OFFSET)
            for table in reversed(tables):
                builder.PrependUOffsetTRelative(table)
        elif field.element in _FLAGS:
            numbers = [_convert_number(field.element, each) for each in values]
            flags = _FLAGS[field.element]
            builder.StartVector(flags.bytewidth, len(numbers), flags.bytewidth)
            for number in reversed(numbers):
                builder.Prepend(flags, number)
        else:
            raise NotSerializable(str(field.element))
        offset: int = builder.EndVector()
        return offset


@functools.cache
def _list_fields(kind: Hashable) -> tuple[str, ...]:
    """List the fields of a dataclass in the order of JSON."""
    if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
        raise NotSerializable(str(kind))
    return tuple(each.name for each in dataclasses.fields(kind))


def _convert_number(base: BaseType, value: Any) -> int | float:
    """Convert a number as ``flatc`` reads it from JSON.

    Raises:
        NotSerializable: the value has another type than its field, or would be rounded twice on
            the way to float32; ``flatc`` rounds its decimals once.
    """
    if base is not BaseType.FLOAT:
        if type(value) is not int and not isinstance(value, IntEnum):
            raise NotSerializable(type(value).__name__)
        return int(value)
    if value in _INFINITE or (type(value) is int and abs(value) < 1 << 24):
        return float(value)
    if type(value) is not float:
        raise NotSerializable(type(value).__name__)
    if value and math.isfinite(value) and not _NORMAL.tiny <= abs(value) <= _NORMAL.max:
        raise NotSerializable(f"{value} is no normal number of float32")
    if struct.unpack("<q", struct.pack("<d", value))[0] & _BELOW_FLOAT == _HALFWAY:
        raise NotSerializable(f"{value} lies between two numbers of float32")
    return float(numpy.float32(value))


@functools.cache
def _load_schema() -> FlatbufferSchema | None:
    """Load XNNPACK's schema; None if it has unsupported features or ``flatc`` fails."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "schema.fbs")
        text.write_bytes(upstream._get_schema_bytes())
        asked = ["--binary", "--schema", "--bfbs-builtins", "-o", folder, str(text)]
        try:
            _flatbuffer._run_flatc(asked)
            return flatc_schema.parse_schema(Path(folder, "schema.bfbs").read_bytes())
        except (NotSerializable, OSError, subprocess.CalledProcessError):
            return None


def _convert_to_flatbuffer(graph: Any) -> bytes:
    """Replaces ``convert_to_flatbuffer``, which also reports errors of a graph."""
    found = _load_schema()
    if found is not None and upstream.logger.getEffectiveLevel() != logging.DEBUG:
        try:
            return _PayloadWriter(found).write(graph)
        except (NotSerializable, KeyError, TypeError, ValueError, OverflowError):
            pass
    return _upstream(graph)


def install(replace: AttributeReplacer) -> None:
    """Serialize payloads in this process from now on."""
    replace(upstream, "convert_to_flatbuffer", _convert_to_flatbuffer)
