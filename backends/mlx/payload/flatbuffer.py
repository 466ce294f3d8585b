"""Read flatbuffers of a given schema, and verify them while reading.

The reader checks every offset, vtable, vector, string, struct and alignment before it uses it, by
the rules of flatbuffers' C++ ``Verifier``. It also limits the total size of all objects that it
reads by the buffer's size: in a small buffer, overlapping tables and vectors could otherwise
expand to any amount of data.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from backends.mlx.payload.schema import MlxField, MlxSchema, make_struct

# Verifier::Options::max_tables and FLATBUFFERS_MAX_BUFFER_SIZE in flatbuffers' verifier.h, base.h.
MAX_TABLES = 1_000_000
MAX_BYTES = 2**31 - 1

# kMaxVectorSize in to_vector and kMaxCollectionSize in load_program, MLXLoader.cpp.
MAX_ELEMENTS = 1_000_000

# The objects read may have this many times the buffer's size in total. A table or vtable counts
# with all its possible fields, a vector or string with its bytes. Strings and vtables, which
# writers share, count once. Without other sharing, the total stays below twice the buffer's size.
SHARING = 2

Build = Callable[..., Any]
_Read = Callable[["_Buffer", int], Any]

_u8 = struct.Struct("<B").unpack_from
_u16 = struct.Struct("<H").unpack_from
_i32 = struct.Struct("<i").unpack_from
_u32 = struct.Struct("<I").unpack_from


class Malformed(Exception):
    """The buffer violates a rule of the format; the message names the field and the rule."""

    def __init__(self, problem: str, path: str = "") -> None:
        self.problem = problem
        self.path = path
        super().__init__(problem)

    def __str__(self) -> str:
        return f"{self.path.lstrip('.')}: {self.problem}" if self.path else self.problem

    def add_parent(self, field: str) -> Malformed:
        """Return the error with an enclosing field added in front of its path."""
        return Malformed(self.problem, field + self.path)


class Reader:
    """Reads buffers of one schema.

    A table becomes the dict of its fields, in the schema's order, or the result of its builder for
    that dict. A struct becomes the tuple of its values, or the result of its builder for them. An
    absent field has its default; an absent vector is an empty list. Builders may raise
    :class:`Malformed`.
    """

    def __init__(self, schema: MlxSchema, root: str, builders: Mapping[str, Build]) -> None:
        self._schema = schema
        self._builders = builders
        self._tables: dict[str, _TableReader] = {}
        self._root = self._table(root)

    def read(self, data: bytes) -> Any:
        """Read a buffer and return the result for its root table.

        Raises:
            Malformed: the buffer violates a rule of the format.
        """
        if not 8 <= len(data) <= MAX_BYTES:
            raise Malformed(
                f"a flatbuffer of {len(data)} bytes; allowed are 8 to {MAX_BYTES} bytes"
            )
        buffer = _Buffer(data)
        return self._root.read(buffer, buffer.follow(0))

    def _table(self, name: str) -> _TableReader:
        if name not in self._tables:
            fields = self._schema.tables[name]
            readers = [self._make_field_reader(field) for field in fields]
            self._tables[name] = _TableReader(name, fields, readers, self._builders.get(name))
        return self._tables[name]

    def _make_field_reader(self, field: MlxField) -> _FieldReader:
        """Make the reader of a field's values."""
        kind, schema = field.type, self._schema
        if kind in schema.unions:
            members = [self._table(name).read for name in schema.unions[kind]]
            return _FieldReader(4, 4, None, _union(kind, schema.unions[kind], members))
        if code := schema.scalar(kind):
            size = struct.calcsize("<" + code)
            if field.vector:
                return _FieldReader(4, 4, _vector(size, _scalars(code)))
            return _FieldReader(size, size, _scalar(code))
        if kind in schema.structs:
            layout, alignment = make_struct(schema, kind)
            build = self._builders.get(kind, lambda *values: values)
            if field.vector:
                return _FieldReader(4, 4, _vector(layout.size, _structs(layout, build)))
            return _FieldReader(layout.size, alignment, _struct(layout, build))
        target = _text if kind == "string" else self._table(kind).read
        return _FieldReader(4, 4, _vector(4, _targets(target)) if field.vector else _target(target))


class _Buffer:
    """A buffer, its vtables and strings read so far, and the remaining size and table limits."""

    __slots__ = ("data", "layouts", "room", "size", "strings", "tables")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)
        self.room = SHARING * self.size
        self.tables = MAX_TABLES
        self.layouts: dict[tuple[str, int], _TableLayout] = {}
        self.strings: dict[int, str] = {}

    def follow(self, position: int) -> int:
        """Return the target of the offset at a position; the offset itself is in the buffer."""
        offset: int = _u32(self.data, position)[0]
        if not 0 < offset < self.size - position:
            raise Malformed(
                f"offset at byte {position} leads to byte {position + offset} of {self.size}, "
                f"outside the buffer or to itself"
            )
        return position + offset

    def count(self, position: int, size: int) -> int:
        """Return the length of a vector with elements of ``size`` bytes, all in the buffer."""
        if position & 3:
            raise Malformed(f"vector at byte {position}, which is not a multiple of 4")
        if self.size - position < 4:
            raise Malformed(f"vector at byte {position} of {self.size}: no room for its length")
        count: int = _u32(self.data, position)[0]
        if position + 4 + count * size > self.size:
            raise Malformed(
                f"vector of {count} elements at byte {position} of {self.size} extends beyond the "
                f"buffer"
            )
        self.spend(4 + count * size)
        return count

    def spend(self, size: int) -> None:
        """Subtract from the size of objects that may still be read."""
        self.room -= size
        if self.room < 0 or self.tables < 0:
            raise Malformed(
                "more tables and vectors than fit a buffer of this size: some of them overlap"
            )


class _FieldReader(NamedTuple):
    """Reads a field: its inline size and alignment, and a function.

    A union has ``union`` instead, which makes the function from the distance of its type.
    """

    size: int
    alignment: int
    read: _Read | None
    union: Callable[[int | None], _Read] | None = None


class _TableLayout(NamedTuple):
    """The layout that a vtable gives a table: fields to read, absent vectors, bounds to check."""

    extent: int
    wide: tuple[int, ...]
    entries: tuple[tuple[str, int, _Read], ...]
    empty: tuple[str, ...]


class _TableReader:
    def __init__(
        self,
        name: str,
        fields: tuple[MlxField, ...],
        readers: list[_FieldReader],
        build: Build | None,
    ) -> None:
        self.name = name
        self._fields = fields
        self._ways = readers
        self._build = build
        self._cost = 4 + 2 * len(fields)
        self._absent = {field.name: field.default for field in fields}

    def read(self, buffer: _Buffer, position: int) -> Any:
        if position & 3 or position > buffer.size - 4:
            raise Malformed(
                f"{self.name} at byte {position} of {buffer.size} is misaligned or outside the "
                f"buffer"
            )
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
                raise Malformed(
                    f"{self.name} at byte {position} has a misaligned field: 8-byte values must "
                    f"begin at a multiple of 8"
                )
        values = self._absent.copy()
        for name in layout.empty:
            values[name] = []
        name = ""
        try:
            for name, offset, read in layout.entries:
                values[name] = read(buffer, position + offset)
        except Malformed as error:
            raise error.add_parent(f".{name}") from None
        return values if self._build is None else self._build(values)

    def _layout(self, buffer: _Buffer, vtable: int) -> _TableLayout:
        if vtable & 1 or not 0 <= vtable <= buffer.size - 2:
            raise Malformed(
                f"vtable of {self.name} at byte {vtable} of {buffer.size} is misaligned or outside "
                f"the buffer"
            )
        buffer.spend(self._cost)
        size: int = _u16(buffer.data, vtable)[0]
        if size & 1 or vtable + size > buffer.size:
            raise Malformed(
                f"vtable of {self.name} at byte {vtable} has {size} bytes: an odd size, or one "
                f"that extends beyond the buffer"
            )

        def offset_of(slot: int) -> int:
            place = 4 + 2 * slot
            return _u16(buffer.data, vtable + place)[0] if place < size else 0

        extent, wide, entries, empty = 4, [], [], []
        for field, reader in zip(self._fields, self._ways, strict=True):
            offset, read = offset_of(field.slot), reader.read
            if reader.union is not None:
                kind = offset_of(field.slot - 1)
                extent = max(extent, kind + 1)
                read = reader.union(kind - offset if kind else None)
            if offset and read is not None:
                if offset % min(reader.alignment, 4):
                    raise Malformed(f"{self.name}.{field.name} is misaligned")
                if reader.alignment == 8:
                    wide.append(offset)
                extent = max(extent, offset + reader.size)
                entries.append((field.name, offset, read))
            elif field.required:
                raise Malformed(f"{self.name} lacks the required field {field.name}")
            elif field.vector:
                empty.append(field.name)
        return _TableLayout(extent, tuple(wide), tuple(entries), tuple(empty))


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
        raise Malformed(f"string at byte {position} does not end with a zero byte")
    try:
        text = str(buffer.data[position + 4 : end], "utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"string at byte {position} is not UTF-8: {error.reason}") from None
    buffer.strings[position] = text
    return text


def _union(name: str, names: tuple[str, ...], members: Sequence[_Read]) -> Callable[..., _Read]:
    def make_reader(distance: int | None) -> _Read:
        """Make a function that reads a union.

        Args:
            distance: bytes from its value to its type; None when the type is absent.
        """

        def read(buffer: _Buffer, position: int) -> Any:
            number = 0 if distance is None else _u8(buffer.data, position + distance)[0]
            if not 0 < number <= len(members):
                raise Malformed(
                    f"{name} number {number} is unknown, the schema has {len(members)}; the "
                    f"payload was written with another version of the schema"
                )
            try:
                return members[number - 1](buffer, buffer.follow(position))
            except Malformed as error:
                raise error.add_parent(f" ({names[number - 1]})") from None

        return read

    return make_reader


def _vector(size: int, convert: Callable[[_Buffer, int, int], list[Any]]) -> _Read:
    def read(buffer: _Buffer, position: int) -> list[Any]:
        start = buffer.follow(position)
        count = buffer.count(start, size)
        if count > MAX_ELEMENTS:
            raise Malformed(f"vector of {count} elements, the runtime reads {MAX_ELEMENTS} at most")
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
            raise error.add_parent(f"[{len(items)}]") from None
        return items

    return convert
