"""A schema of FlatBuffers as ``flatc`` has understood it.

``flatc --schema --binary`` writes what it made of a schema as a FlatBuffer, which reflection.fbs of
FlatBuffers describes; the numbers of fields and of types below are that file's.
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
    """Its place in the table's list of offsets."""

    base: BaseType
    element: BaseType | None
    """Of a vector."""

    number: int
    """The number of the one of the schema's tables, or of its enumerations, it holds."""

    default: int | float
    is_deprecated: bool


class FlatbufferSchema(NamedTuple):
    """Tables and unions by their number, fields and members by name."""

    tables: list[dict[str, SchemaField]]
    unions: list[dict[str, tuple[int, int]]]
    """By name what tells a member, and the number of its table."""

    root: int
    identifier: bytes


class NotSerializable(Exception):
    """Something that is left to ``flatc``."""


def parse_schema(compiled: bytes) -> FlatbufferSchema:
    """What is in a compiled schema.

    Args:
        compiled: ``flatc``'s file, ``reflection.Schema``.

    Raises:
        NotSerializable: it has structs, or fields with more to them than their type.
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
    """A table of a buffer; its fields by their number."""

    def _at(self, field: int) -> int:
        return cast(int, self.Offset(4 + 2 * field))

    def number(self, field: int, kind: Any) -> Any:
        """A number, 0 where it is not said."""
        at = self._at(field)
        return self.Get(kind, at + self.Pos) if at else 0

    def text(self, field: int) -> str:
        """A string, empty where it is not said."""
        at = self._at(field)
        return cast(bytes, self.String(at + self.Pos)).decode() if at else ""

    def table(self, field: int) -> _FlatbufferTable:
        """A table that is there."""
        return _FlatbufferTable(self.Bytes, self.Indirect(self._at(field) + self.Pos))

    def tables(self, field: int) -> Iterator[_FlatbufferTable]:
        """A vector of tables."""
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
    # That of what is held elsewhere may always be left out.
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
