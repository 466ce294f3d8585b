"""Read and validate a payload of the MLX delegate: its program and its constants.

This module rejects a program that ``load_program`` in the delegate's ``MLXLoader.cpp`` rejects. It
also rejects errors that the runtime finds only during execution, where the payload shows them.
"""

from __future__ import annotations

import functools
import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backends.mlx.codegen import GenerationError
from backends.mlx.payload import checks, schema
from backends.mlx.payload.flatbuffer import Build, Malformed, Reader
from backends.mlx.payload.graph import (
    Dim,
    MlxGraph,
    MlxSlot,
    MlxTensorMeta,
    Node,
    PayloadError,
    SlotKind,
    Tid,
    Vid,
)

__all__ = ["MlxConstant", "PayloadError", "load", "load_constants"]

# kHeaderSize and kMagic in MLXLoader.cpp.
_HEADER = struct.Struct("<4x4sQQ")
_MAGIC = b"MLX0"

# kMaxSupportedVersion in MLXBackend::init, MLXBackend.cpp; it reads the version with std::stoi.
_MAX_VERSION = 1
_STOI = re.compile(r"[ \t\n\v\f\r]*([+-]?)0*([0-9]{1,11})")

# kMaxCollectionSize in load_program, MLXLoader.cpp, for tensor slots and value slots.
_MAX_SLOTS = 1_000_000

# kTensorDimensionLimit in load_program.
_MAX_RANK = 16

# ScalarType::NumOptions in executorch's portable_type/scalar_type.h.
_SCALAR_TYPES = 31

# SlotType in MLXLoader.h.
_KINDS = (SlotKind.TENSOR, SlotKind.INT, SlotKind.FLOAT, SlotKind.BOOL)


@dataclass(frozen=True)
class MlxConstant:
    """A constant tensor.

    Attributes:
        slot: number of its tensor slot.
        name: its key in the named data map.
        scalar_type: ExecuTorch's ``ScalarType`` number.
        shape: sizes; the elements are row-major.
        data: the bytes of the elements, not copied.
    """

    slot: int
    name: str
    scalar_type: int
    shape: tuple[int, ...]
    data: memoryview


def load(data: bytes) -> MlxGraph:
    """Decode and validate a payload.

    Raises:
        PayloadError: the payload is malformed, or the runtime would refuse it.
        GenerationError: the installed executorch has no usable schema.
    """
    try:
        root = _reader().read(_flatbuffer(data))
    except Malformed as error:
        raise PayloadError(str(error)) from None
    graph = _build_graph(root)
    _check_maps(graph)
    _check_constants(graph)
    _check_buffers(graph)
    checks.check_graph(graph)
    return graph


def load_constants(
    graph: MlxGraph, named_data: Mapping[str, bytes | memoryview]
) -> list[MlxConstant]:
    """Return the constant tensors in the order of their slots, like the runtime's function.

    Args:
        graph: a program from :func:`load`.
        named_data: the named data map of the ``.pte``.

    Raises:
        PayloadError: a constant is missing, or has fewer bytes than its shape needs.
    """
    loaded = []
    for slot in range(graph.constants):
        name, meta = graph.names[slot], graph.meta[slot]
        assert meta is not None, "checked by load"
        data = named_data.get(name)
        if data is None:
            raise PayloadError(f"constant {slot} ({name[:80]!r}) is not in the named data map")
        shape = tuple(dim.low for dim in meta.shape)
        size = _count_bytes(meta)
        if len(data) < size:
            raise PayloadError(
                f"constant {slot} ({name[:80]!r}) has {len(data)} bytes, shape {shape} needs {size}"
            )
        loaded.append(MlxConstant(slot, name, meta.scalar_type, shape, memoryview(data)[:size]))
    return loaded


def _flatbuffer(data: bytes) -> bytes:
    """Return the flatbuffer after the header. The runtime does not use the data after it."""
    if len(data) < _HEADER.size:
        raise PayloadError(f"{len(data)} bytes, fewer than the {_HEADER.size} of the header")
    magic, end, _ = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise PayloadError(f"magic is {magic!r}, expected {_MAGIC!r}")
    if not _HEADER.size < end <= len(data):
        raise PayloadError(
            f"data offset in the header is {end}, expected {_HEADER.size + 1} to {len(data)}"
        )
    return bytes(data[_HEADER.size : end])


@functools.cache
def _reader() -> Reader:
    loaded = schema.load()
    for kind in loaded.nodes:
        fields = {field.name for field in loaded.tables[kind]}
        if clash := [name for name in fields if name == "kind" or hasattr(Node, name)]:
            raise GenerationError(f"executorch's schema.fbs has a field {kind}.{clash[0]}")
        for rule in checks.get_rules(kind):
            if absent := set(rule.fields) - fields:
                raise GenerationError(f"executorch's schema.fbs has no {kind}.{min(absent)}")
    builders: dict[str, Build] = {kind: functools.partial(_node, kind) for kind in loaded.nodes}
    builders |= {
        "Tid": Tid,
        "Vid": Vid,
        "IntOrVid": _literal_or_vid,
        "FloatOrVid": _literal_or_vid,
        "VidOrTid": lambda values: _require_field(values, "vid" if values["is_vid"] else "tid"),
        "IntOrVidOrTid": _literal_or_vid_or_tid,
        "Instruction": lambda values: values["op"],
        "InstructionChain": lambda values: tuple(values["instructions"]),
        "ShapeDim": _dim,
        "TensorMeta": _meta,
        "SlotVariant": _slot,
    }
    return Reader(loaded, schema.ROOT, builders)


def _node(kind: str, values: dict[str, Any]) -> Node:
    return Node(kind=kind, **values)


# convert_int_or_vid and its siblings in MLXLoader.h.


def _require_field(values: dict[str, Any], field: str) -> Any:
    if values[field] is None:
        raise Malformed(f"its tag selects the field {field}, which is absent")
    return values[field]


def _literal_or_vid(values: dict[str, Any]) -> Any:
    return _require_field(values, "vid") if values["is_vid"] else values["literal"]


def _literal_or_vid_or_tid(values: dict[str, Any]) -> Any:
    kind = values["kind"]
    if kind > 2:
        raise Malformed(f"kind is {kind}, expected 0 (literal), 1 (vid) or 2 (tid)")
    return _require_field(values, ("literal", "vid", "tid")[kind])


def _dim(values: dict[str, Any]) -> Dim:
    value, low, high = values["value"], values["min_value"], values["max_value"]
    if value >= 0:
        return Dim(value, value, static=True)
    if value < -1 or low < 0 or (high != -1 and high < low):
        raise Malformed(f"dimension is {value} with invalid bounds {low} to {high}")
    return Dim(low, None if high == -1 else high)


def _meta(values: dict[str, Any]) -> MlxTensorMeta:
    if len(values["shape"]) > _MAX_RANK:
        raise Malformed(
            f"{len(values['shape'])} dimensions, the runtime allows {_MAX_RANK} at most"
        )
    if not 0 <= values["scalar_type"] < _SCALAR_TYPES:
        raise Malformed(f"scalar type is {values['scalar_type']}, there are {_SCALAR_TYPES}")
    return MlxTensorMeta(tuple(values["shape"]), values["scalar_type"], tuple(values["dim_order"]))


def _slot(values: dict[str, Any]) -> MlxSlot:
    kind = values["slot_type"]
    if not 0 <= kind < len(_KINDS):
        raise Malformed(f"slot type is {kind}, there are {len(_KINDS)}")
    return MlxSlot(_KINDS[kind], values["idx"])


def _build_graph(root: dict[str, Any]) -> MlxGraph:
    graph = MlxGraph(
        version=_version(root["version"] or ""),
        constants=root["num_constant_tensors"],
        inputs=root["num_input_tensors"],
        outputs=root["num_output_tensors"],
        buffers=root["num_mutable_buffer_tensors"],
        temporaries=root["num_temp_tensors"],
        values=root["num_values"],
        chains=tuple(root["instruction_chains"]),
        main=root["main_chain_idx"],
        init=root["init_chain_idx"] if root["init_chain_idx"] >= 0 else None,
        input_map=tuple(root["input_map"]),
        output_map=tuple(root["output_map"]),
        buffer_map=tuple(root["mutable_buffer_map"]),
        names={
            named["slot"].index: named["name"]
            for named in root["named_slots"]
            if named["slot"].kind is SlotKind.TENSOR
            and named["slot"].index < root["num_constant_tensors"]
        },
        meta=tuple(root["tensor_meta"]),
    )
    for kind, count in (("tensor", graph.tensors), ("value", graph.values)):
        if count > _MAX_SLOTS:
            raise PayloadError(f"{count} {kind} slots, the runtime allows {_MAX_SLOTS} at most")
    for role, chain in (("main", graph.main), ("init", graph.init)):
        if chain is not None and chain >= len(graph.chains):
            raise PayloadError(f"{role} chain is {chain}, there are {len(graph.chains)} chains")
    return graph


def _version(text: str) -> str:
    """Check the version and return it as written; an empty one means the first."""
    if not text:
        return text
    match = _STOI.match(text)
    number = int(match[1] + match[2]) if match else 2**31
    if not -(2**31) <= number < 2**31:
        raise PayloadError(f"version is {text[:40]!r}, expected an integer")
    if number > _MAX_VERSION:
        raise PayloadError(f"version is {number}, the runtime supports {_MAX_VERSION} at most")
    return text


def _check_maps(graph: MlxGraph) -> None:
    """Check that slots are in range and of the kinds that ``MLXBackend::execute`` passes."""
    maps = {"input": graph.input_map, "output": graph.output_map, "buffer": graph.buffer_map}
    for name, slots in maps.items():
        for place, slot in enumerate(slots):
            where = f"{name} map, entry {place}"
            allowed = (SlotKind.TENSOR,) if name == "buffer" else (SlotKind.TENSOR, SlotKind.INT)
            if slot.kind not in allowed:
                raise PayloadError(f"{where}: the runtime passes no {slot.kind} there")
            kind = "tensor" if slot.kind is SlotKind.TENSOR else "value"
            count = graph.tensors if slot.kind is SlotKind.TENSOR else graph.values
            if slot.index >= count:
                raise PayloadError(f"{where} refers to {kind} slot {slot.index}, there are {count}")
            if name == "input" and kind == "tensor" and slot.index < graph.constants:
                raise PayloadError(f"{where} refers to tensor slot {slot.index}, a constant")


def _check_constants(graph: MlxGraph) -> None:
    """Check the rules of ``load_constants`` in MLXExecutor.h, except for the data's size."""
    for slot in range(graph.constants):
        if slot not in graph.names:
            raise PayloadError(f"constant {slot} has no name")
        _count_bytes(_require_static(graph, slot, f"constant {slot} ({graph.names[slot][:80]!r})"))


def _check_buffers(graph: MlxGraph) -> None:
    """Check the rules of ``load_mutable_buffers`` in MLXExecutor.h."""
    for place, slot in enumerate(graph.buffer_map):
        where = f"buffer map, entry {place}"
        if (role := graph.role(slot.index)) != "buffer":
            raise PayloadError(f"{where} refers to tensor slot {slot.index}, whose role is {role}")
        meta = _require_static(graph, slot.index, where)
        if any(dim.low == 0 for dim in meta.shape):
            raise PayloadError(f"{where} has a dimension of size 0")
        limit = checks.MAX_ALLOCATION_BYTES
        if (size := _count_bytes(meta)) > limit:
            raise PayloadError(f"{where} has {size} bytes, the runtime allows {limit} at most")


def _require_static(graph: MlxGraph, slot: int, where: str) -> MlxTensorMeta:
    meta = graph.get_meta(slot)
    if meta is None:
        raise PayloadError(f"{where} has no declared shape")
    for number, dim in enumerate(meta.shape):
        if not dim.static:
            raise PayloadError(f"{where} has the dynamic dimension {number} ({dim})")
    if meta.scalar_type not in checks.ITEM_SIZES:
        raise PayloadError(
            f"{where} has scalar type {meta.scalar_type}, which does not exist in MLX"
        )
    return meta


def _count_bytes(meta: MlxTensorMeta) -> int:
    return checks.ITEM_SIZES[meta.scalar_type] * math.prod(dim.low for dim in meta.shape)
