"""A flatbuffer reader that verifies while it reads, driven by a schema.

Nothing in the buffer is believed: every offset, vtable, vector, string, struct and alignment is
checked against the buffer before it is used, by the rules of flatbuffers' C++ ``Verifier``.
Beyond these, what is read is budgeted by the buffer's size, because tables and vectors that lie
over each other cost a buffer nothing and a reader that copies a lot.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from backends.mlx.payload.schema import Field, Schema, struct_of

# Verifier::Options::max_tables and FLATBUFFERS_MAX_BUFFER_SIZE in flatbuffers' verifier.h, base.h.
MAX_TABLES = 1_000_000
MAX_BYTES = 2**31 - 1

# kMaxVectorSize in to_vector and kMaxCollectionSize in load_program, MLXLoader.cpp.
MAX_ELEMENTS = 1_000_000

# What is read may cost this much of the buffer's size. A table or vtable costs its fields' worth
# even where they are left out, a vector or string its bytes; strings and vtables, the things that
# writers share, cost once. A buffer in which nothing else is shared stays below twice its size.
SHARING = 2

Build = Callable[..., Any]
_Read = Callable[["_Buffer", int], Any]

_u8 = struct.Struct("<B").unpack_from
_u16 = struct.Struct("<H").unpack_from
_i32 = struct.Struct("<i").unpack_from
_u32 = struct.Struct("<I").unpack_from


class Malformed(Exception):
    """The buffer breaks a rule; ``str()`` says where and which."""

    def __init__(self, what: str, path: str = "") -> None:
        self.what = what
        self.path = path
        super().__init__(what)

    def __str__(self) -> str:
        return f"{self.path.lstrip('.')}: {self.what}" if self.path else self.what

    def within(self, where: str) -> Malformed:
        """The same, seen from one level further out."""
        return Malformed(self.what, where + self.path)


class Reader:
    """Reads buffers of one schema.

    A table gives what its builder makes of the dict of its fields, in the schema's order, or
    that dict. A struct gives what its builder makes of its values, or their tuple. Absent
    fields give their default, absent vectors an empty list. Builders may raise
    :class:`Malformed`.
    """

    def __init__(self, schema: Schema, root: str, builders: Mapping[str, Build]) -> None:
        self._schema = schema
        self._builders = builders
        self._tables: dict[str, _Table] = {}
        self._root = self._table(root)

    def read(self, data: bytes) -> Any:
        """What the root table gives.

        Raises:
            Malformed: the buffer breaks a rule.
        """
        if not 8 <= len(data) <= MAX_BYTES:
            raise Malformed(f"a flatbuffer of {len(data)} bytes")
        buffer = _Buffer(data)
        return self._root.read(buffer, buffer.follow(0))

    def _table(self, name: str) -> _Table:
        if name not in self._tables:
            fields = self._schema.tables[name]
            ways = [self._way(field) for field in fields]
            self._tables[name] = _Table(name, fields, ways, self._builders.get(name))
        return self._tables[name]

    def _way(self, field: Field) -> _Way:
        """How the values of a field are read."""
        kind, schema = field.type, self._schema
        if kind in schema.unions:
            members = [self._table(name).read for name in schema.unions[kind]]
            return _Way(4, 4, None, _union(kind, schema.unions[kind], members))
        if code := schema.scalar(kind):
            size = struct.calcsize("<" + code)
            if field.vector:
                return _Way(4, 4, _vector(size, _scalars(code)))
            return _Way(size, size, _scalar(code))
        if kind in schema.structs:
            layout, alignment = struct_of(schema, kind)
            build = self._builders.get(kind, lambda *values: values)
            if field.vector:
                return _Way(4, 4, _vector(layout.size, _structs(layout, build)))
            return _Way(layout.size, alignment, _struct(layout, build))
        target = _text if kind == "string" else self._table(kind).read
        return _Way(4, 4, _vector(4, _targets(target)) if field.vector else _target(target))


class _Buffer:
    """One buffer, what is known of it, and what may still be read of it."""

    __slots__ = ("data", "layouts", "room", "size", "strings", "tables")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)
        self.room = SHARING * self.size
        self.tables = MAX_TABLES
        self.layouts: dict[tuple[str, int], _Layout] = {}
        self.strings: dict[int, str] = {}

    def follow(self, position: int) -> int:
        """Where an offset points to that is known to lie within the buffer."""
        offset: int = _u32(self.data, position)[0]
        if not 0 < offset < self.size - position:
            raise Malformed(
                f"offset at byte {position} leads to byte {position + offset} of {self.size}"
            )
        return position + offset

    def count(self, position: int, size: int) -> int:
        """Number of elements of ``size`` bytes of the vector at a position, all within."""
        if position & 3:
            raise Malformed(f"vector at byte {position}, which is not a multiple of 4")
        if self.size - position < 4:
            raise Malformed(f"vector at byte {position} of {self.size}")
        count: int = _u32(self.data, position)[0]
        if position + 4 + count * size > self.size:
            raise Malformed(f"vector of {count} elements at byte {position} of {self.size}")
        self.spend(4 + count * size)
        return count

    def spend(self, size: int) -> None:
        """Take from what may still be referred to."""
        self.room -= size
        if self.room < 0 or self.tables < 0:
            raise Malformed("more tables and vectors than a buffer of this size has room for")


class _Way(NamedTuple):
    """Inline size and alignment of a field and how it is read; a union's needs its type's place."""

    size: int
    alignment: int
    read: _Read | None
    union: Callable[[int | None], _Read] | None = None


class _Layout(NamedTuple):
    """What a vtable makes of a table: fields to read, absent vectors, and bounds to check."""

    extent: int
    wide: tuple[int, ...]
    entries: tuple[tuple[str, int, _Read], ...]
    empty: tuple[str, ...]


class _Table:
    def __init__(
        self, name: str, fields: tuple[Field, ...], ways: list[_Way], build: Build | None
    ) -> None:
        self.name = name
        self._fields = fields
        self._ways = ways
        self._build = build
        self._cost = 4 + 2 * len(fields)
        self._absent = {field.name: field.default for field in fields}

    def read(self, buffer: _Buffer, position: int) -> Any:
        if position & 3 or position > buffer.size - 4:
            raise Malformed(f"{self.name} at byte {position} of {buffer.size}")
        buffer.tables -= 1
        buffer.spend(self._cost)
        vtable = position - _i32(buffer.data, position)[0]
        layout = buffer.layouts.get((self.name, vtable))
        if layout is None:
            layout = buffer.layouts[self.name, vtable] = self._layout(buffer, vtable)
        if position + layout.extent > buffer.size:
            raise Malformed(f"{self.name} at byte {position} extends beyond {buffer.size} bytes")
        for offset in layout.wide:
            if (position + offset) & 7:
                raise Malformed(f"{self.name} at byte {position} has a field out of alignment")
        values = self._absent.copy()
        for name in layout.empty:
            values[name] = []
        name = ""
        try:
            for name, offset, read in layout.entries:
                values[name] = read(buffer, position + offset)
        except Malformed as error:
            raise error.within(f".{name}") from None
        return values if self._build is None else self._build(values)

    def _layout(self, buffer: _Buffer, vtable: int) -> _Layout:
        if vtable & 1 or not 0 <= vtable <= buffer.size - 2:
            raise Malformed(f"vtable of {self.name} at byte {vtable} of {buffer.size}")
        buffer.spend(self._cost)
        size: int = _u16(buffer.data, vtable)[0]
        if size & 1 or vtable + size > buffer.size:
            raise Malformed(f"vtable of {self.name} at byte {vtable} has {size} bytes")

        def offset_of(slot: int) -> int:
            place = 4 + 2 * slot
            return _u16(buffer.data, vtable + place)[0] if place < size else 0

        extent, wide, entries, empty = 4, [], [], []
        for field, way in zip(self._fields, self._ways, strict=True):
            offset, read = offset_of(field.slot), way.read
            if way.union is not None:
                kind = offset_of(field.slot - 1)
                extent = max(extent, kind + 1)
                read = way.union(kind - offset if kind else None)
            if offset and read is not None:
                if offset % min(way.alignment, 4):
                    raise Malformed(f"{self.name}.{field.name} is out of alignment")
                if way.alignment == 8:
                    wide.append(offset)
                extent = max(extent, offset + way.size)
                entries.append((field.name, offset, read))
            elif field.required:
                raise Malformed(f"{self.name} has no {field.name}, which is required")
            elif field.vector:
                empty.append(field.name)
        return _Layout(extent, tuple(wide), tuple(entries), tuple(empty))


def _scalar(code: str) -> _Read:
    unpack = struct.Struct("<" + code).unpack_from
    return lambda buffer, position: unpack(buffer.data, position)[0]


def _struct(layout: struct.Struct, build: Build) -> _Read:
    unpack = layout.unpack_from
    return lambda buffer, position: build(*unpack(buffer.data, position))


def _target(read: _Read) -> _Read:
    return lambda buffer, position: read(buffer, buffer.follow(position))


def _text(buffer: _Buffer, position: int) -> str:
    if position in buffer.strings:
        return buffer.strings[position]
    end = position + 4 + buffer.count(position, 1)
    if end >= buffer.size or buffer.data[end] != 0:
        raise Malformed(f"string at byte {position} does not end")
    try:
        text = str(buffer.data[position + 4 : end], "utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"string at byte {position} is not UTF-8: {error.reason}") from None
    buffer.strings[position] = text
    return text


def _union(name: str, names: tuple[str, ...], members: Sequence[_Read]) -> Callable[..., _Read]:
    def placed(distance: int | None) -> _Read:
        """Reads a union whose type is so far from its value, or absent."""

        def read(buffer: _Buffer, position: int) -> Any:
            number = 0 if distance is None else _u8(buffer.data, position + distance)[0]
            if not 0 < number <= len(members):
                raise Malformed(
                    f"{name} number {number} is unknown, there are {len(members)}; the payload "
                    f"was made with another version of the schema"
                )
            try:
                return members[number - 1](buffer, buffer.follow(position))
            except Malformed as error:
                raise error.within(f" ({names[number - 1]})") from None

        return read

    return placed


def _vector(size: int, convert: Callable[[_Buffer, int, int], list[Any]]) -> _Read:
    def read(buffer: _Buffer, position: int) -> list[Any]:
        start = buffer.follow(position)
        count = buffer.count(start, size)
        if count > MAX_ELEMENTS:
            raise Malformed(f"vector of {count} elements, the runtime reads {MAX_ELEMENTS}")
        return convert(buffer, start + 4, count)

    return read


def _scalars(code: str) -> Callable[[_Buffer, int, int], list[Any]]:
    return lambda buffer, first, count: list(
        struct.unpack_from(f"<{count}{code}", buffer.data, first)
    )


def _structs(layout: struct.Struct, build: Build) -> Callable[[_Buffer, int, int], list[Any]]:
    def convert(buffer: _Buffer, first: int, count: int) -> list[Any]:
        data = buffer.data[first : first + count * layout.size]
        return [build(*values) for values in layout.iter_unpack(data)]

    return convert


def _targets(read: _Read) -> Callable[[_Buffer, int, int], list[Any]]:
    def convert(buffer: _Buffer, first: int, count: int) -> list[Any]:
        items: list[Any] = []
        try:
            for offset in struct.unpack_from(f"<{count}I", buffer.data, first):
                items.append(read(buffer, first + 4 * len(items) + offset))
        except Malformed as error:
            raise error.within(f"[{len(items)}]") from None
        return items

    return convert
