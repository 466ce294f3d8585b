"""Parts of a flatbuffer that lie over each other cannot make reading it expensive."""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from backends.mlx.payload import flatbuffer, reader, schema
from backends.mlx.payload.graph import PayloadError
from backends.mlx.payload.tests.payloads import (
    encode,
    generated_serializers,
    graph,
    integer,
    mlx,
    sample,
    serializers,
)
from backends.mlx.payload.tests.test_flatbuffer import Buffer


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
    """A payload in which every node occurs that often and is stored once."""
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
    reader.load(encode(graph()))
    tracemalloc.start()
    began = time.process_time()
    try:
        loaded = bool(reader.load(data))
    except PayloadError:
        loaded = False
    seconds = time.process_time() - began
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return loaded, seconds, peak / len(data)


MEGABYTE = 2**20

# CPU seconds that distinguish a hang from a slow machine; a normal load takes two.
HANGS = 60.0


def test_vectors_that_are_stored_once_and_used_often_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = shared_perm(monkeypatch, 2_000, 100_000)
    assert len(data) < MEGABYTE
    with pytest.raises(PayloadError, match=r"instructions\[\d+\].op .*more tables and vectors"):
        reader.load(data)


@pytest.mark.parametrize("kind", ["NoopNode", "ConvTranspose3DNode", "MetalKernelNode"])
def test_nodes_that_are_stored_once_cost_no_more_than_the_payload_allows(kind: str) -> None:
    data = shared(sample(kind, full=False), times=20_000)
    _, seconds, bytes_each = measured(data)
    assert bytes_each < 100
    assert seconds < HANGS


def test_literals_that_are_stored_once_cost_no_more_than_the_payload_allows() -> None:
    shape = [integer(2)] * 60_000
    _, seconds, bytes_each = measured(shared(sample("ReshapeNode", shape=shape), times=1))
    assert bytes_each < 100
    assert seconds < HANGS


@pytest.mark.one_of(2)
@pytest.mark.parametrize("kind", ["NoopNode", "ConvTranspose3DNode"])
def test_vtables_over_each_other_cost_no_more_than_the_payload_allows(kind: str) -> None:
    loaded, seconds, bytes_each = measured(overlapping_vtables(kind, 10_000))
    assert loaded is (kind == "NoopNode")
    assert bytes_each < 100
    assert seconds < HANGS


def test_a_payload_that_shares_nothing_stays_within_its_budget() -> None:
    """Also the smallest of tables: literals that are their default, and nodes of two slots."""
    given = [mlx.ReshapeNode(mlx.Tid(0), mlx.Tid(1), [integer(0) for _ in range(10_000)])]
    given += [sample("Conv3DNode", full=False) for _ in range(2_000)]
    given += [mlx.NoopNode() for _ in range(2_000)]
    meta = [mlx.TensorMeta([mlx.ShapeDim()] * 16, 0) for _ in range(2_000)]
    maps = [mlx.SlotVariant(0, 0) for _ in range(5_000)]
    loaded, *_ = measured(encode(graph(*given, tensor_meta=meta, output_map=maps)))
    assert loaded


def test_a_string_that_is_used_often_is_stored_once() -> None:
    source = "x" * 50_000
    given = [sample("MetalKernelNode", source=source, header=source) for _ in range(500)]
    data = encode(graph(*given))
    assert len(data) < 10 * len(source)
    kernels = reader.load(data).chains[0]
    assert len({id(kernel.source) for kernel in kernels} | {id(k.header) for k in kernels}) == 1


def test_vectors_longer_than_the_runtime_reads_are_refused() -> None:
    given = graph(mlx.TransposeNode(mlx.Tid(0), mlx.Tid(1), [0] * (flatbuffer.MAX_ELEMENTS + 1)))
    with pytest.raises(PayloadError, match=r"perm: vector of 1000001 elements, the runtime reads"):
        reader.load(encode(given))
