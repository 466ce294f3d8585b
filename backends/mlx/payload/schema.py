"""The MLX delegate's flatbuffer schema as data, from the installed wheel's ``schema.fbs``.

The wheel's own parser reads the file. This module adds types, defaults and vtable slots, and
rejects a schema that the payload reader would misread.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backends.mlx.codegen import GenerationError, load_generator, wheel_folder

ROOT = "MLXGraph"
UNION = "OpNode"

# struct codes for every spelling of a scalar type in the flatbuffers language.
SCALARS: Mapping[str, str] = {
    **dict.fromkeys(("bool",), "?"),
    **dict.fromkeys(("byte", "int8"), "b"),
    **dict.fromkeys(("ubyte", "uint8"), "B"),
    **dict.fromkeys(("short", "int16"), "h"),
    **dict.fromkeys(("ushort", "uint16"), "H"),
    **dict.fromkeys(("int", "int32"), "i"),
    **dict.fromkeys(("uint", "uint32"), "I"),
    **dict.fromkeys(("long", "int64"), "q"),
    **dict.fromkeys(("ulong", "uint64"), "Q"),
    **dict.fromkeys(("float", "float32"), "f"),
    **dict.fromkeys(("double", "float64"), "d"),
}

# Fields that the payload reader uses, besides the nodes' own fields.
_REQUIRED_FIELDS: Mapping[str, Mapping[str, str]] = {
    "Tid": {"idx": "uint32"},
    "Vid": {"idx": "uint32"},
    "IntOrVid": {"literal": "int64", "vid": "Vid", "is_vid": "bool"},
    "FloatOrVid": {"literal": "double", "vid": "Vid", "is_vid": "bool"},
    "VidOrTid": {"vid": "Vid", "tid": "Tid", "is_vid": "bool"},
    "IntOrVidOrTid": {"literal": "int64", "vid": "Vid", "tid": "Tid", "kind": "uint8"},
    "Instruction": {"op": UNION},
    "InstructionChain": {"instructions": "[Instruction]"},
    "ShapeDim": {"value": "int32", "min_value": "int32", "max_value": "int32"},
    "TensorMeta": {"shape": "[ShapeDim]", "scalar_type": "int8", "dim_order": "[uint8]"},
    "SlotVariant": {"idx": "uint32", "slot_type": "SlotType"},
    "NamedSlot": {"name": "string", "slot": "SlotVariant"},
    ROOT: {
        "version": "string",
        **{
            f"num_{name}": "uint32"
            for name in (
                *(f"{role}_tensors" for role in ("constant", "input", "output")),
                *("mutable_buffer_tensors", "temp_tensors", "values"),
            )
        },
        "instruction_chains": "[InstructionChain]",
        "main_chain_idx": "uint32",
        "init_chain_idx": "int32",
        **dict.fromkeys(("input_map", "output_map", "mutable_buffer_map"), "[SlotVariant]"),
        "named_slots": "[NamedSlot]",
        "tensor_meta": "[TensorMeta]",
    },
}


@dataclass(frozen=True)
class MlxField:
    """A field of a table.

    Attributes:
        type: a scalar, ``string``, or the name of a struct, enum, table or union; of the elements
            when ``vector``.
        slot: index in the vtable; for a union the index of the value, after its type.
        default: value of an absent field; None when the field is optional.
    """

    name: str
    type: str
    vector: bool
    slot: int
    required: bool
    default: Any

    def __str__(self) -> str:
        return f"[{self.type}]" if self.vector else self.type


@dataclass(frozen=True)
class MlxSchema:
    """The schema, by name.

    Attributes:
        tables: fields of each table, in the order of their declaration.
        structs: scalar type of each field, in order.
        enums: scalar type, and number of each value.
        unions: tables of each union; table ``i`` has number ``i + 1``, and number 0 is "none".
    """

    tables: Mapping[str, tuple[MlxField, ...]]
    structs: Mapping[str, Mapping[str, str]]
    enums: Mapping[str, tuple[str, Mapping[str, int]]]
    unions: Mapping[str, tuple[str, ...]]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the instructions in the order of their numbers, which begin at 1."""
        return self.unions[UNION]

    def scalar(self, name: str) -> str | None:
        """Return the ``struct`` code of a scalar or an enum, None for any other type."""
        return SCALARS.get(self.enums[name][0] if name in self.enums else name)


@functools.cache
def load() -> MlxSchema:
    """Load the schema of the installed wheel.

    Raises:
        GenerationError: the wheel has no schema, or one that the reader does not support.
    """
    folder = wheel_folder() / "serialization"
    path = folder / "schema.fbs"
    generator = load_generator(folder)
    try:
        parsed = generator.parse_fbs(path)
    except (OSError, UnicodeDecodeError) as error:
        raise GenerationError(f"{path} cannot be read: {error}") from error
    return build_schema(parsed)


def build_schema(parsed: Any) -> MlxSchema:
    """Build the schema from the result of the wheel's ``parse_fbs``.

    Raises:
        GenerationError: the reader does not support the schema.
    """
    enums = {enum.name: (enum.base_type, _numbers(enum.values)) for enum in parsed.enums}
    structs = {s.name: {f.name: f.type_str for f in s.fields} for s in parsed.structs}
    unions = {union.name: tuple(union.types) for union in parsed.unions}
    bare = MlxSchema({table.name: () for table in parsed.tables}, structs, enums, unions)
    tables = {table.name: tuple(_fields(bare, table)) for table in parsed.tables}
    schema = MlxSchema(tables, structs, enums, unions)
    _check(schema)
    return schema


def _numbers(values: list[tuple[str, int | None]]) -> dict[str, int]:
    numbers: dict[str, int] = {}
    following = 0
    for name, explicit in values:
        numbers[name] = following if explicit is None else explicit
        following = numbers[name] + 1
    return numbers


def _fields(schema: MlxSchema, table: Any) -> list[MlxField]:
    fields, slot = [], 0
    for parsed in table.fields:
        vector = parsed.type_str.startswith("[")
        kind = parsed.type_str.strip("[]")
        known = kind == "string" or schema.scalar(kind) is not None
        if not known and not any(
            kind in names for names in (schema.structs, schema.tables, schema.unions)
        ):
            raise _make_error(f"{table.name}.{parsed.name} has the unknown type {parsed.type_str}")
        if kind in schema.unions:
            if vector:
                raise _make_error(f"{table.name}.{parsed.name} is a vector of unions")
            slot += 1
        default = None if vector else _default(schema, table.name, parsed, kind)
        fields.append(MlxField(parsed.name, kind, vector, slot, parsed.required, default))
        slot += 1
    return fields


def _default(schema: MlxSchema, table: str, parsed: Any, kind: str) -> Any:
    code, text = schema.scalar(kind), parsed.default
    if code is None or text == "null":
        return None
    try:
        if code == "?":
            return {None: False, "false": False, "true": True}[text]
        if code in "fd":
            return float(text or 0)
        if kind in schema.enums and text in schema.enums[kind][1]:
            return schema.enums[kind][1][text]
        return int(text or "0", 0)
    except (KeyError, ValueError):
        raise _make_error(f"{table}.{parsed.name} has the default {text!r}") from None


def _check(schema: MlxSchema) -> None:
    if UNION not in schema.unions:
        raise _make_error(f"it has no union {UNION}")
    for union, members in schema.unions.items():
        if unknown := [name for name in members if name not in schema.tables]:
            raise _make_error(f"union {union} has members that are no tables: {', '.join(unknown)}")
    for name, fields in schema.structs.items():
        for field, kind in fields.items():
            if kind not in SCALARS:
                raise _make_error(f"struct field {name}.{field} is no scalar but a {kind}")
    for name, expected in _REQUIRED_FIELDS.items():
        fields = schema.structs.get(name) or {
            field.name: str(field) for field in schema.tables.get(name, ())
        }
        for field, kind in expected.items():
            if fields.get(field) != kind:
                raise _make_error(
                    f"{name}.{field} is {fields.get(field, 'missing')}, expected {kind}"
                )
    _check_depth(schema)


def _check_depth(schema: MlxSchema) -> None:
    """Reject tables that contain themselves: the readers would recurse without end."""

    def visit(table: str, above: tuple[str, ...]) -> None:
        if table in above:
            raise _make_error(f"table {table} contains itself")
        for field in schema.tables[table]:
            for inner in schema.unions.get(field.type, (field.type,)):
                if inner in schema.tables:
                    visit(inner, (*above, table))

    visit(ROOT, ())


def make_struct(schema: MlxSchema, name: str) -> tuple[struct.Struct, int]:
    """Return the layout of a struct, padded to its alignment, and the alignment."""
    layout, offset, alignment = "<", 0, 1
    for kind in schema.structs[name].values():
        size = struct.calcsize("<" + SCALARS[kind])
        padding = -offset % size
        layout += f"{padding}x" * bool(padding) + SCALARS[kind]
        offset, alignment = offset + padding + size, max(alignment, size)
    if tail := -offset % alignment:
        layout += f"{tail}x"
    return struct.Struct(layout), alignment


def _make_error(problem: str) -> GenerationError:
    return GenerationError(
        f"executorch's schema.fbs is not supported: {problem}; install the version that "
        f"pyproject.toml pins"
    )
