"""The reader of flatbuffers: every corruption is found, and sharing cannot make it expensive."""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from backends.mlx import flatbuffer, payload, schema
from backends.mlx.graph import PayloadError
from backends.mlx.tests.payloads import (
    bindings,
    encode,
    generated_serializers,
    graph,
    integer,
    mlx,
    sample,
    serializers,
)

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
        lambda b: b.put("i", b.node, b.get("i", b.node) - 1),
        "vtable of GeluNode at byte",
    ),
    "vtable of odd size": (lambda b: b.put("H", b.vtable(b.node), 9), "has 9 bytes"),
    "vtable too long": (lambda b: b.put("H", b.vtable(b.node), 65534), "has 65534 bytes"),
    "vtable too short": (
        lambda b: b.put("H", b.vtable(b.node), 8),
        WITHIN + r".op \(GeluNode\): GeluNode has no approximate, which is required$",
    ),
    "field missing": (
        lambda b: b.put("H", b.vtable(b.node) + 4, 0),
        "GeluNode has no x, which is required",
    ),
    "field beyond": (lambda b: b.put("H", b.vtable(b.node) + 4, 65532), "extends beyond"),
    "field out of alignment": (
        lambda b: b.put("H", b.vtable(b.node) + 4, 6),
        "GeluNode.x is out of alignment",
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
        lambda b: b.put("I", b.node + b.entry(b.node, 2), b.text() - b.node),
        "approximate: (vector at byte .* not a multiple of 4|offset|vector of|string)",
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
        WITHIN + ".op: OpNode number 0 is unknown, there are",
    ),
    "node type absent": (
        lambda b: b.put("H", b.vtable(b.instruction) + 4, 0),
        WITHIN + ".op: OpNode number 0 is unknown",
    ),
    "node type newer": (
        lambda b: b.put("B", b.instruction + b.entry(b.instruction, 0), 255),
        "OpNode number 255 is unknown, .* made with another version of the schema",
    ),
    "node absent": (
        lambda b: b.put("H", b.vtable(b.instruction) + 6, 0),
        WITHIN + ": Instruction has no op, which is required",
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
    with pytest.raises(flatbuffer.Malformed, match=r"IntOrVid at byte .* has a field out of align"):
        READER.read(bytes(buffer.data))


@pytest.mark.parametrize("size", range(0, 400, 7))
def test_a_truncated_buffer_is_malformed(size: int) -> None:
    whole = bytes(Buffer().data)
    with pytest.raises(flatbuffer.Malformed):
        READER.read(whole[: min(size, len(whole) - 20)])


def test_any_nonzero_byte_is_true() -> None:
    buffer = Buffer(sample("SdpaNode", causal=True))
    buffer.put("B", buffer.node + buffer.entry(buffer.node, 6), 0x82)
    (node,) = payload._reader().read(bytes(buffer.data))["instruction_chains"][0]
    assert node.causal is True


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_floats_need_not_be_finite(value: float) -> None:
    given = sample("FullNode", v=mlx.FloatOrVid.from_literal(value))
    (node,) = payload.load(encode(graph(given))).chains[0]
    assert repr(node.v) == repr(value)


# --- sharing


class Sharing(serializers.MLXGraphSerializer):
    """Serializes an object that occurs twice once."""

    def build(self) -> bytes:
        self.made: dict[int, Any] = {}
        self.kept: list[Any] = []
        return self.serialize()

    def once(self, given: Any, make: Callable[[], Any]) -> Any:
        if id(given) not in self.made:
            self.made[id(given)] = make()
            self.kept.append(given)
        return self.made[id(given)]

    def _build_instruction(self, builder: Any, instr: Any) -> Any:
        return self.once(instr, lambda: super(Sharing, self)._build_instruction(builder, instr))

    def _build_int_or_vid(self, builder: Any, iov: Any) -> Any:
        return self.once(iov, lambda: super(Sharing, self)._build_int_or_vid(builder, iov))


def shared(*ops: Any, times: int) -> bytes:
    """A payload in which every node occurs so often and is stored once."""
    given = graph(*ops)
    given.instruction_chains[0].instructions *= times
    return Sharing(given).build()


def shared_perm(monkeypatch: pytest.MonkeyPatch, tables: int, elements: int) -> bytes:
    """Many tables that refer to one long vector."""
    perm = [0] * elements
    made: list[int] = []

    def build(builder: Any, vec: list[int]) -> int:
        if not made:
            made.append(upstream(builder, vec))
        return made[0]

    upstream = generated_serializers._build_int_vector
    monkeypatch.setattr(generated_serializers, "_build_int_vector", build)
    return encode(graph(*[mlx.TransposeNode(mlx.Tid(0), mlx.Tid(1), perm) for _ in range(tables)]))


def overlapping_vtables(kind: str, count: int) -> bytes:
    """Nodes of four bytes each, every one with a vtable of its own.

    In a run of equal numbers every even byte is a vtable of that many bytes, all of whose fields
    lie that many bytes behind the node.
    """
    size = 4 + 2 * len(schema.load().tables[kind])
    buffer = Buffer(*[mlx.NoopNode() for _ in range(count)])
    start = len(buffer.data) + -len(buffer.data) % 4
    buffer.data += bytes(start - len(buffer.data)) + struct.pack("<H", size) * (count + size)
    for number in range(count):
        instruction = buffer.target(buffer.listed + 4 * number)
        place = instruction + buffer.entry(instruction, 0)
        buffer.put("B", place, schema.load().nodes.index(kind) + 1)
        node = buffer.target(instruction + buffer.entry(instruction, 1))
        buffer.put("i", node, node - (start + 2 * number))
    end = 24 + len(buffer.data)
    return bytes(4) + b"MLX0" + struct.pack("<QQ", end, 0) + bytes(buffer.data)


def measured(data: bytes) -> tuple[bool, float, float]:
    """Whether it loads, seconds, and bytes of memory for each byte of the payload."""
    payload.load(encode(graph()))
    tracemalloc.start()
    began = time.process_time()
    try:
        loaded = bool(payload.load(data))
    except PayloadError:
        loaded = False
    seconds = time.process_time() - began
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return loaded, seconds, peak / len(data)


MEGABYTE = 2**20


def test_vectors_that_are_stored_once_and_used_often_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = shared_perm(monkeypatch, 2_000, 100_000)
    assert len(data) < MEGABYTE
    with pytest.raises(PayloadError, match=r"instructions\[\d+\].op .*more tables and vectors"):
        payload.load(data)


@pytest.mark.parametrize("kind", ["NoopNode", "ConvTranspose3DNode", "MetalKernelNode"])
def test_nodes_that_are_stored_once_cost_no_more_than_the_payload_allows(kind: str) -> None:
    data = shared(sample(kind, full=False), times=20_000)
    _, seconds, bytes_each = measured(data)
    assert bytes_each < 100
    assert seconds < 5


def test_literals_that_are_stored_once_cost_no_more_than_the_payload_allows() -> None:
    shape = [integer(2)] * 60_000
    _, seconds, bytes_each = measured(shared(sample("ReshapeNode", shape=shape), times=1))
    assert bytes_each < 100
    assert seconds < 5


@pytest.mark.parametrize("kind", ["NoopNode", "ConvTranspose3DNode"])
def test_vtables_over_each_other_cost_no_more_than_the_payload_allows(kind: str) -> None:
    loaded, seconds, bytes_each = measured(overlapping_vtables(kind, 10_000))
    assert loaded is (kind == "NoopNode")
    assert bytes_each < 100
    assert seconds < 5


def test_a_payload_that_shares_nothing_stays_within_its_budget() -> None:
    """Also the smallest of tables: literals that are their default, and nodes of two slots."""
    given = [mlx.ReshapeNode(mlx.Tid(0), mlx.Tid(1), [integer(0) for _ in range(10_000)])]
    given += [sample("Conv3DNode", full=False) for _ in range(2_000)]
    given += [mlx.NoopNode() for _ in range(2_000)]
    meta = [mlx.TensorMeta([mlx.ShapeDim()] * 16, 0) for _ in range(2_000)]
    maps = [mlx.SlotVariant(0, 0) for _ in range(5_000)]
    loaded, *_ = measured(encode(graph(*given, tensor_meta=meta, output_map=maps)))
    assert loaded


def test_a_string_that_is_used_often_is_kept_once() -> None:
    source = "x" * 50_000
    given = [sample("MetalKernelNode", source=source, header=source) for _ in range(500)]
    data = encode(graph(*given))
    assert len(data) < 10 * len(source)
    kernels = payload.load(data).chains[0]
    assert len({id(kernel.source) for kernel in kernels} | {id(k.header) for k in kernels}) == 1


def test_vectors_longer_than_the_runtime_reads_are_refused() -> None:
    given = graph(mlx.TransposeNode(mlx.Tid(0), mlx.Tid(1), [0] * (flatbuffer.MAX_ELEMENTS + 1)))
    with pytest.raises(PayloadError, match=r"perm: vector of 1000001 elements, the runtime reads"):
        payload.load(encode(given))
