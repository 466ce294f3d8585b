"""Parse a FlatBuffers schema from the binary form that ``flatc`` compiles.

``flatc --schema --binary`` writes a schema as a FlatBuffer, which FlatBuffers' reflection.fbs
describes; the numbers of fields and types below come from that file.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple, cast

from flatbuffers import number_types
from flatbuffers.table import Table


class BaseType(IntEnum):
    """Kinds of fields, ``reflection.BaseType``."""

    UTYPE = 1
    BOOL = 2
    BYTE = 3
    UBYTE = 4
    SHORT = 5
    USHORT = 6
    INT = 7
    UINT = 8
    LONG = 9
    ULONG = 10
    FLOAT = 11
    DOUBLE = 12
    STRING = 13
    VECTOR = 14
    TABLE = 15
    UNION = 16


class SchemaField(NamedTuple):
    """A field of a table."""

    slot: int
    """Index in the table's vtable."""

    base: BaseType
    element: BaseType | None
    """Type of a vector's elements; None for other fields."""

    number: int
    """Index of the field's table or enumeration in the schema; -1 for neither."""

    default: int | float
    is_deprecated: bool


class FlatbufferSchema(NamedTuple):
    """A schema: tables and unions by index, fields and members by name."""

    tables: list[dict[str, SchemaField]]
    unions: list[dict[str, tuple[int, int]]]
    """Discriminator and table index of each member, by name."""

    root: int
    identifier: bytes


class NotSerializable(Exception):
    """A schema or value that only ``flatc`` can serialize."""


def parse_schema(compiled: bytes) -> FlatbufferSchema:
    """Parse a compiled schema.

    Args:
        compiled: bytes of ``flatc``'s file, a ``reflection.Schema``.

    Raises:
        NotSerializable: the schema has structs, or fields with special attributes.
    """
    start = number_types.UOffsetTFlags.packer_type.unpack_from(compiled, 0)[0]
    schema = _FlatbufferTable(compiled, start)
    objects = list(schema.tables(0))
    tables = [_fields(each) for each in objects]
    names = [each.text(0) for each in objects]
    return FlatbufferSchema(
        tables,
        [_members(each) for each in schema.tables(1)],
        names.index(schema.table(4).text(0)),
        schema.text(2).encode(),
    )


class _FlatbufferTable(Table):  # type: ignore[misc]
    """A table in a buffer; methods read fields by number."""

    def _at(self, field: int) -> int:
        return cast(int, self.Offset(4 + 2 * field))

    def number(self, field: int, kind: Any) -> Any:
        """Read a number; 0 if it is absent."""
        at = self._at(field)
        return self.Get(kind, at + self.Pos) if at else 0

    def text(self, field: int) -> str:
        """Read a string; empty if it is absent."""
        at = self._at(field)
        return cast(bytes, self.String(at + self.Pos)).decode() if at else ""

    def table(self, field: int) -> _FlatbufferTable:
        """Read a required table."""
        return _FlatbufferTable(self.Bytes, self.Indirect(self._at(field) + self.Pos))

    def tables(self, field: int) -> Iterator[_FlatbufferTable]:
        """Read a vector of tables."""
        if at := self._at(field):
            first = self.Vector(at)
            for place in range(first, first + 4 * self.VectorLen(at), 4):
                yield _FlatbufferTable(self.Bytes, self.Indirect(place))


_DEPRECATED, _REQUIRED, _KEY, _ATTRIBUTES, _OPTIONAL, _LONG_OFFSET = 6, 7, 8, 9, 11, 13


def _fields(table: _FlatbufferTable) -> dict[str, SchemaField]:
    if table.number(2, number_types.BoolFlags):
        raise NotSerializable("a struct")
    return {each.text(0): _field(each) for each in table.tables(1)}


def _field(said: _FlatbufferTable) -> SchemaField:
    kind = said.table(1)
    base = BaseType(kind.number(0, number_types.Int8Flags))
    is_deprecated = bool(said.number(_DEPRECATED, number_types.BoolFlags))
    # Fields that are stored by offset are always optional.
    special = (_REQUIRED, _KEY, _LONG_OFFSET, *((_OPTIONAL,) if base < BaseType.STRING else ()))
    is_special = any(said.number(each, number_types.BoolFlags) for each in special)
    if not is_deprecated and (is_special or any(said.tables(_ATTRIBUTES))):
        raise NotSerializable(f"field {said.text(0)}")
    is_real = base in (BaseType.FLOAT, BaseType.DOUBLE)
    return SchemaField(
        said.number(2, number_types.Uint16Flags),
        base,
        BaseType(kind.number(1, number_types.Int8Flags)) if base is BaseType.VECTOR else None,
        kind.number(2, number_types.Int32Flags) if kind._at(2) else -1,
        said.number(5, number_types.Float64Flags)
        if is_real
        else said.number(4, number_types.Int64Flags),
        is_deprecated,
    )


def _members(enumeration: _FlatbufferTable) -> dict[str, tuple[int, int]]:
    if not enumeration.number(2, number_types.BoolFlags):
        return {}
    return {
        each.text(0): (
            each.number(1, number_types.Int64Flags),
            each.table(3).number(2, number_types.Int32Flags),
        )
        for each in enumeration.tables(1)
        if each.number(1, number_types.Int64Flags)
    }
