"""The flatbuffer reader finds every corruption and names its place."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from backends.mlx.payload import flatbuffer, reader, schema
from backends.mlx.payload.tests.payloads import bindings, encode, graph, integer, mlx, sample

READER = flatbuffer.Reader(schema.load(), schema.ROOT, {})


class Buffer:
    """A small flatbuffer, and where its parts lie."""

    def __init__(self, *nodes: Any) -> None:
        self.data = bytearray(encode(graph(*(nodes or [sample("GeluNode")])))[24:])
        self.root = bindings("MLXGraph").GetRootAs(self.data, 0)._tab
        self.chains = self.root.Vector(self.field(self.root, "MLXGraph", "instruction_chains"))
        self.chain = self.target(self.chains)
        self.listed = self.target(self.chain + self.entry(self.chain, 0)) + 4
        self.instruction = self.target(self.listed)
        self.node = self.target(self.instruction + self.entry(self.instruction, 1))

    @staticmethod
    def field(table: Any, name: str, field: str) -> int:
        (slot,) = [f.slot for f in schema.load().tables[name] if f.name == field]
        return table.Offset(4 + 2 * slot)

    def get(self, code: str, position: int) -> int:
        return struct.unpack_from("<" + code, self.data, position)[0]

    def put(self, code: str, position: int, value: int) -> None:
        struct.pack_into("<" + code, self.data, position, value)

    def nudge(self, position: int, by: int) -> None:
        self.put("I", position, self.get("I", position) + by)

    def vtable(self, table: int) -> int:
        return table - self.get("i", table)

    def entry(self, table: int, slot: int) -> int:
        return self.get("H", self.vtable(table) + 4 + 2 * slot)

    def target(self, position: int) -> int:
        return position + self.get("I", position)

    def text(self) -> int:
        """Where the only string of a GeluNode lies."""
        return self.target(self.node + self.entry(self.node, 2))


def far(buffer: Buffer) -> int:
    return len(buffer.data)


Corruption = Callable[[Buffer], None]
WITHIN = r"^instruction_chains\[0\].instructions\[0\]"

CORRUPTIONS: dict[str, tuple[Corruption, str]] = {
    "root offset 0": (lambda b: b.put("I", 0, 0), "^offset at byte 0 leads to byte 0 of"),
    "root offset beyond": (lambda b: b.put("I", 0, far(b)), "^offset at byte 0 leads to byte"),
    "root offset negative": (lambda b: b.put("i", 0, -4), "leads to byte 4294967292"),
    "root out of alignment": (lambda b: b.put("I", 0, b.get("I", 0) + 2), "^MLXGraph at byte"),
    "root at the end": (lambda b: b.put("I", 0, (far(b) - 1) & ~3 | 2), "^MLXGraph at byte"),
    "vtable before": (lambda b: b.put("i", b.node, b.node + 2), "vtable of GeluNode at byte -2"),
    "vtable behind": (lambda b: b.put("i", b.node, -far(b)), "vtable of GeluNode at byte"),
    "vtable at an odd byte": (
        lambda b: b.nudge(b.node, 1),
        r"vtable of GeluNode at byte \d+ of",
    ),
    "vtable of odd size": (lambda b: b.put("H", b.vtable(b.node), 9), "has 9 bytes"),
    "vtable too long": (lambda b: b.put("H", b.vtable(b.node), 65534), "has 65534 bytes"),
    "vtable too short": (
        lambda b: b.put("H", b.vtable(b.node), 8),
        WITHIN + r".op \(GeluNode\): GeluNode lacks the required field approximate$",
    ),
    "field missing": (
        lambda b: b.put("H", b.vtable(b.node) + 4, 0),
        "GeluNode lacks the required field x",
    ),
    "field beyond": (lambda b: b.put("H", b.vtable(b.node) + 4, 65532), "extends beyond"),
    "field out of alignment": (
        lambda b: b.put("H", b.vtable(b.node) + 4, 6),
        "GeluNode.x is misaligned",
    ),
    "offset 0": (
        lambda b: b.put("I", b.node + b.entry(b.node, 2), 0),
        WITHIN + r".op \(GeluNode\).approximate: offset at byte \d+ leads to byte",
    ),
    "offset beyond": (
        lambda b: b.put("I", b.node + b.entry(b.node, 2), 2**31),
        "approximate: offset at byte",
    ),
    "string out of alignment": (
        lambda b: b.nudge(b.node + b.entry(b.node, 2), 1),
        r"approximate: vector at byte \d+, which is not a multiple of 4",
    ),
    "string too long": (
        lambda b: b.put("I", b.text(), 2**32 - 1),
        "approximate: vector of 4294967295 elements at byte",
    ),
    "string up to the end": (
        lambda b: b.put("I", b.text(), far(b) - b.text() - 4),
        "approximate: string at byte .* does not end",
    ),
    "string without its end": (
        lambda b: b.put("B", b.text() + 8, 1),
        "approximate: string at byte .* does not end",
    ),
    "string of other bytes": (
        lambda b: b.put("B", b.text() + 4, 0xFF),
        "approximate: string at byte .* is not UTF-8: invalid start byte",
    ),
    "overlong UTF-8": (
        lambda b: b.data.__setitem__(slice(b.text() + 4, b.text() + 6), b"\xc0\x80"),
        "is not UTF-8",
    ),
    "node type none": (
        lambda b: b.put("B", b.instruction + b.entry(b.instruction, 0), 0),
        WITHIN + ".op: OpNode number 0 is unknown, the schema has",
    ),
    "node type absent": (
        lambda b: b.put("H", b.vtable(b.instruction) + 4, 0),
        WITHIN + ".op: OpNode number 0 is unknown",
    ),
    "node type newer": (
        lambda b: b.put("B", b.instruction + b.entry(b.instruction, 0), 255),
        "OpNode number 255 is unknown, .* written with another version of the schema",
    ),
    "node type beyond": (
        lambda b: b.put("H", b.vtable(b.instruction) + 4, 65535),
        "Instruction at byte .* extends beyond",
    ),
    "node absent": (
        lambda b: b.put("H", b.vtable(b.instruction) + 6, 0),
        WITHIN + ": Instruction lacks the required field op",
    ),
    "vector too long": (
        lambda b: b.put("I", b.chains - 4, far(b)),
        r"^instruction_chains: vector of \d+ elements at byte",
    ),
    "element beyond": (
        lambda b: b.put("I", b.chains, 2**32 - 4),
        r"^instruction_chains\[0\]: InstructionChain at byte",
    ),
}


def test_the_buffer_to_corrupt_is_read() -> None:
    assert READER.read(bytes(Buffer().data))["instruction_chains"]


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corruption_is_found_and_placed(name: str) -> None:
    corrupt, message = CORRUPTIONS[name]
    buffer = Buffer()
    corrupt(buffer)
    with pytest.raises(flatbuffer.Malformed, match=message):
        READER.read(bytes(buffer.data))


def test_wide_numbers_are_checked_for_alignment() -> None:
    buffer = Buffer(mlx.RepeatNode(mlx.Tid(0), mlx.Tid(1), integer(2**40), 3))
    table = buffer.target(buffer.node + buffer.entry(buffer.node, 2))
    vtable = len(buffer.data)
    buffer.data += struct.pack("<5H", 10, 16, buffer.entry(table, 0) + 4, 0, 0)
    buffer.put("i", table, table - vtable)
    with pytest.raises(flatbuffer.Malformed, match=r"IntOrVid at byte .* has a misaligned field"):
        READER.read(bytes(buffer.data))


@pytest.mark.parametrize("size", range(0, 400, 7))
def test_a_truncated_buffer_is_malformed(size: int) -> None:
    whole = bytes(Buffer().data)
    with pytest.raises(flatbuffer.Malformed):
        READER.read(whole[: min(size, len(whole) - 20)])


def test_more_tables_than_the_runtime_reads_are_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bytes(Buffer().data)
    monkeypatch.setattr(flatbuffer, "MAX_TABLES", 4)  # graph, chain, instruction, node
    READER.read(whole)
    monkeypatch.setattr(flatbuffer, "MAX_TABLES", 3)
    with pytest.raises(flatbuffer.Malformed, match="more tables and vectors"):
        READER.read(whole)


def test_any_nonzero_byte_is_true() -> None:
    buffer = Buffer(sample("SdpaNode", causal=True))
    buffer.put("B", buffer.node + buffer.entry(buffer.node, 6), 0x82)
    (node,) = reader._reader().read(bytes(buffer.data))["instruction_chains"][0]
    assert node.causal is True


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_floats_need_not_be_finite(value: float) -> None:
    given = sample("FullNode", v=mlx.FloatOrVid.from_literal(value))
    (node,) = reader.load(encode(graph(given))).chains[0]
    assert repr(node.v) == repr(value)
