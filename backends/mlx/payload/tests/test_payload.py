"""Payloads decode to the values that executorch wrote; bad payloads raise a one-line error."""

from __future__ import annotations

import dataclasses
import pickle
import re
import struct
from typing import Any

import pytest

from backends.mlx import codegen
from backends.mlx.execution.kernels.base import DTYPES
from backends.mlx.payload import checks, flatbuffer, reader, schema
from backends.mlx.payload.graph import PayloadError, SlotKind, Tid, Vid
from backends.mlx.payload.tests.payloads import (
    NAMES,
    bindings,
    encode,
    graph,
    mlx,
    nodes,
    real,
    sample,
    slot,
    tensor_meta,
    with_constant,
)
from harness import ProgramError


def tree(name: str, table: Any) -> dict[str, Any]:
    """A table as flatc's own Python bindings read it."""
    return {field.name: value(field, table) for field in schema.load().tables[name]}


def value(field: schema.MlxField, table: Any) -> Any:
    camel = "".join(part.capitalize() for part in field.name.split("_"))
    accessor = getattr(table, camel)
    if field.type in schema.load().unions:
        number = getattr(table, f"{camel}Type")()
        target, kind = accessor(), schema.load().unions[field.type][number - 1]
        bound = bindings(kind)()
        bound.Init(target.Bytes, target.Pos)
        return tree(kind, bound)
    if field.vector:
        return [element(field.type, accessor(i)) for i in range(getattr(table, f"{camel}Length")())]
    return element(field.type, accessor())


def element(kind: str, found: Any) -> Any:
    if found is None or schema.load().scalar(kind):
        return found
    if kind == "string":
        return found.decode()
    return (found.Idx(),) if kind in schema.load().structs else tree(kind, found)


def flatc(data: bytes) -> dict[str, Any]:
    return tree(schema.ROOT, bindings(schema.ROOT).GetRootAs(data[24:], 0))


def plain(data: bytes) -> Any:
    return flatbuffer.Reader(schema.load(), schema.ROOT, {}).read(data[24:])


@pytest.mark.one_of(3)
@pytest.mark.parametrize("full", [True, False], ids=["full", "bare"])
@pytest.mark.parametrize("kind", nodes())
def test_every_node_type_reads_as_flatc_reads_it(kind: str, full: bool) -> None:
    data = encode(graph([sample(kind, full=full)], []))
    assert repr(plain(data)) == repr(flatc(data))
    (node,) = reader.load(data).chains[0]
    assert node.kind == kind
    assert list(node.fields) == [field.name for field in schema.load().tables[kind]]


@pytest.mark.parametrize("name", NAMES)
def test_real_payloads_read_as_flatc_reads_them(name: str) -> None:
    data = real(name)[0].data
    assert repr(plain(data)) == repr(flatc(data))


def converted(given: Any, field: schema.MlxField | None = None) -> Any:
    """Convert a value of executorch's dataclasses to its form in the graph."""
    if given is None and field is not None:
        return [] if field.vector else field.default
    match given:
        case list():
            return [converted(item) for item in given]
        case mlx.Tid():
            return Tid(given.idx)
        case mlx.Vid():
            return Vid(given.idx)
        case mlx.IntOrVid() | mlx.FloatOrVid():
            return converted(given.vid) if given.is_vid else given.literal
        case mlx.VidOrTid():
            return converted(given.vid if given.is_vid else given.tid)
        case mlx.IntOrVidOrTid():
            return converted((given.literal, given.vid, given.tid)[given.kind])
    if field is not None and field.type == "float":
        return struct.unpack("f", struct.pack("f", given))[0]
    return given


@pytest.mark.parametrize("name", NAMES)
def test_real_programs_decode_to_their_serialized_values(name: str) -> None:
    delegate, given = real(name)
    found = reader.load(delegate.data)
    assert found.version == given.version
    assert len(found.chains) == len(given.instruction_chains)
    for chain, expected in zip(found.chains, given.instruction_chains, strict=True):
        for node, instruction in zip(chain, expected.instructions, strict=True):
            assert node.kind == type(instruction.op).__name__
            for field in schema.load().tables[node.kind]:
                want = converted(getattr(instruction.op, field.name), field)
                assert repr(getattr(node, field.name)) == repr(want), (node, field)
    assert (found.main, found.init) == (given.main_chain_idx, None)
    assert found.constants == given.num_constant_tensors
    assert found.inputs == given.num_input_tensors
    assert found.outputs == given.num_output_tensors
    assert found.buffers == given.num_mutable_buffer_tensors
    assert found.temporaries == given.num_temp_tensors
    assert found.values == given.num_values
    kinds = [SlotKind.TENSOR, SlotKind.INT, SlotKind.FLOAT, SlotKind.BOOL]
    for slots, listed in (
        (found.input_map, given.input_map),
        (found.output_map, given.output_map),
        (found.buffer_map, given.mutable_buffer_map),
    ):
        assert [(s.kind, s.index) for s in slots] == [(kinds[s.slot_type], s.idx) for s in listed]
    assert len(found.meta) == len(given.tensor_meta)
    for meta, declared in zip(found.meta, given.tensor_meta, strict=True):
        assert meta is not None
        assert meta.scalar_type == declared.scalar_type
        assert meta.dim_order == tuple(declared.dim_order or ())
        for dim, bounds in zip(meta.shape, declared.shape, strict=True):
            high = None if bounds.max_value == -1 else bounds.max_value
            dynamic = bounds.min_value, high, False
            assert dataclasses.astuple(dim) == (
                dynamic if bounds.value == -1 else (bounds.value, bounds.value, True)
            )
    named = {s.slot.idx: s.name for s in given.named_slots if s.slot.idx < found.constants}
    assert found.names == named


@pytest.mark.parametrize("name", NAMES)
def test_constants_are_the_named_data(name: str) -> None:
    delegate, given = real(name)
    found = reader.load(delegate.data)
    constants = reader.load_constants(found, delegate.named_data)
    assert [constant.slot for constant in constants] == list(range(given.num_constant_tensors))
    for constant in constants:
        meta = given.tensor_meta[constant.slot]
        assert constant.shape == tuple(dim.value for dim in meta.shape)
        assert constant.scalar_type == meta.scalar_type
        stored = delegate.named_data[constant.name]
        assert bytes(constant.data) == stored[: len(constant.data)]
        assert len(stored) - len(constant.data) < 16  # the .pte pads


def test_item_sizes_are_those_of_mlx() -> None:
    assert {number: dtype.size for number, dtype in DTYPES.items()} == checks.ITEM_SIZES


def test_the_error_is_a_program_error() -> None:
    with pytest.raises(ProgramError, match=r"^MLX payload: 0 bytes") as caught:
        reader.load(b"")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


# --- the header


def header(
    *, magic: bytes = b"MLX0", padding: bytes = b"\0\0\0\0", end: int | None = None, size: int = 0
) -> bytes:
    data = encode(graph())
    offset = len(data) if end is None else end
    return padding + magic + struct.pack("<QQ", offset, size) + data[24:]


def test_the_runtime_ignores_padding_and_data_size() -> None:
    loaded = reader.load(header(padding=b"abcd", size=2**64 - 1) + b"data")
    assert loaded.chains == ((),)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (header()[:23], "23 bytes, fewer than the 24 of the header"),
        (header(magic=b"MLX1"), "magic is b'MLX1', expected b'MLX0'"),
        (header(end=24), "data offset in the header is 24, expected 25 to"),
        (header(end=0), "data offset in the header is 0"),
        (header(end=len(header()) + 1), f"data offset in the header is {len(header()) + 1}"),
        (header(end=2**64 - 1), "data offset in the header is 18446744073709551615"),
        (header(end=28), "a flatbuffer of 4 bytes"),
        (header(end=40), "MLXGraph at byte|offset at byte 0|vtable of MLXGraph"),
    ],
)
def test_a_bad_header_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(PayloadError, match=message):
        reader.load(data)


# --- constants


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({}, r"constant 0 \('w'\) is not in the named data map"),
        ({"w": bytes(23)}, r"constant 0 \('w'\) has 23 bytes, shape \(2, 3\) needs 24"),
        ({"w": b""}, "has 0 bytes"),
    ],
)
def test_constants_that_do_not_fit_are_refused(named: dict[str, bytes], message: str) -> None:
    loaded = reader.load(encode(with_constant()))
    with pytest.raises(PayloadError, match=message):
        reader.load_constants(loaded, named)


def test_constants_may_have_extra_bytes_or_none() -> None:
    loaded = reader.load(encode(with_constant()))
    (constant,) = reader.load_constants(loaded, {"w": bytes(range(32))})
    assert bytes(constant.data) == bytes(range(24))
    empty = reader.load(encode(with_constant(meta=[tensor_meta(2**31 - 1, 0)])))
    assert bytes(reader.load_constants(empty, {"w": b"x"})[0].data) == b""


def test_the_last_name_of_a_constant_counts() -> None:
    given = with_constant()
    given.named_slots += [mlx.NamedSlot("later", slot(0)), mlx.NamedSlot("value", slot(0, 1))]
    assert reader.load(encode(given)).names == {0: "later"}


def test_messages_are_short_for_any_payload() -> None:
    for bad in (
        graph(version="x" * 100_000),
        graph(sample("PadNode", mode="m" * 100_000)),
        graph(sample("DequantizeNode", mode="m" * 100_000)),
        with_constant(name="n" * 100_000, meta=[]),
    ):
        with pytest.raises(PayloadError) as caught:
            reader.load(encode(bad))
        assert len(str(caught.value)) < 300


def test_the_wheel_and_the_rules_name_the_same_fields() -> None:
    for kind in nodes():
        fields = {field.name for field in schema.load().tables[kind]}
        for rule in checks.get_rules(kind):
            assert set(rule.fields) <= fields


def test_a_schema_without_a_needed_field_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = schema.load()
    tables = {**found.tables, "PadNode": found.tables["PadNode"][:2]}
    monkeypatch.setattr(schema, "load", lambda: dataclasses.replace(found, tables=tables))
    with pytest.raises(codegen.GenerationError, match=re.escape("has no PadNode.pad_width")):
        reader._reader.__wrapped__()
