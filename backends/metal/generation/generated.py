"""The generated code of one partition, as data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import torch

from harness.vendors.torch import ALIGN_BYTES

Extent = int | str
"""A size, or the C++ expression for a dynamic one in terms of the wrapper's ``s`` variables."""

SHADER = re.compile(r'const char\* (\w+)_source = \(R"MTL\((.*?)\)MTL"\);', re.DOTALL)


class GeneratedTensorSpec(msgspec.Struct, frozen=True):
    """An input, an output or a constant of a partition.

    Attributes:
        name: its variable in the wrapper; for an output, the buffer that it comes from.
        dtype: as torch spells it, such as ``float32``.
        shape: sizes.
        strides: in elements.
        storage_offset: in elements; None if it is unknown before the program runs.
        device: ``mps`` or ``cpu``.
    """

    name: str
    dtype: str
    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...]
    storage_offset: Extent | None = None
    device: str = "mps"


class GeneratedConstant(msgspec.Struct, frozen=True):
    """One constant and its place in the weights.

    Attributes:
        spec: its tensor; the offset counts from ``start``.
        source: its name in the program.
        start: first byte of its storage in the weights.
        size: bytes of its storage.
        mutated: the code writes to it.
    """

    spec: GeneratedTensorSpec
    source: str
    start: int
    size: int
    mutated: bool


class Generated(msgspec.Struct, frozen=True):
    """The code for one partition.

    Attributes:
        wrapper: the C++ source, shaders included.
        inputs: in the order of the wrapper's handles.
        outputs: in the order of the wrapper's handles; None for an output that is no tensor.
        constants: in the order of the wrapper's constants.
        weights: the constants' storages, concatenated and aligned.
        fallbacks: kernels of the runtime that the wrapper calls, as upstream's check names them.
        nodes: for each buffer of the wrapper, the partition's node that it is computed for.
    """

    wrapper: str
    inputs: tuple[GeneratedTensorSpec, ...]
    outputs: tuple[GeneratedTensorSpec | None, ...]
    constants: tuple[GeneratedConstant, ...]
    fallbacks: tuple[str, ...]
    weights: bytes = b""
    nodes: dict[str, str] = {}

    @property
    def kernels(self) -> dict[str, str]:
        """Metal source by the name of its library in the wrapper; each has one function."""
        return dict(SHADER.findall(self.wrapper))

    def tensors(self) -> list[torch.Tensor]:
        """Return the constants' values, in the order of the wrapper's constants."""
        return [_tensor(constant, self.weights) for constant in self.constants]


def encode(generated: Generated) -> bytes:
    """Encode as JSON, without the weights, which the program stores separately."""
    return msgspec.json.encode(msgspec.structs.replace(generated, weights=b""))


def decode(data: bytes | memoryview, weights: bytes) -> Generated:
    """Decode the output of :func:`encode`.

    Raises:
        msgspec.DecodeError: the bytes are no encoded Generated.
    """
    return msgspec.structs.replace(msgspec.json.decode(data, type=Generated), weights=weights)


def collect(
    graph: Any, wrapper: str, fallbacks: tuple[str, ...], linears: dict[str, str]
) -> Generated:
    """Read a compiled graph.

    Args:
        graph: Inductor's ``GraphLowering`` after code generation.
        wrapper: the C++ source.
        fallbacks: names of the kernels that it calls.
        linears: the linear node of each matmul node that upstream's passes created.
    """
    constants, weights = _constants(graph)
    return Generated(
        wrapper=wrapper,
        inputs=tuple(_spec(name, box) for name, box in graph.graph_inputs.items()),
        outputs=tuple(_output(box) for box in graph.graph_outputs),
        constants=constants,
        fallbacks=fallbacks,
        weights=weights,
        nodes={name: linears.get(node, node) for name, node in _nodes(graph)},
    )


def _spec(name: str, box: Any) -> GeneratedTensorSpec:
    layout = box.get_layout()
    return GeneratedTensorSpec(
        name,
        str(layout.dtype).removeprefix("torch."),
        _extents(layout.size),
        _extents(layout.stride),
        device=layout.device.type,
    )


def _output(box: Any) -> GeneratedTensorSpec | None:
    return _spec(box.get_name(), box) if box.has_tensor_output() else None


def _extents(sizes: Any) -> tuple[Extent, ...]:
    return tuple(int(size) if str(size).isdecimal() else str(size) for size in sizes)


def _nodes(graph: Any) -> Iterator[tuple[str, str]]:
    """Yield each buffer and the node of the program that it is computed for."""
    for buffer in graph.buffers:
        origins = [node for node in buffer.get_origins() if node.op == "call_function"]
        if origins:
            last = max(origins)  # nodes are ordered as their graph is
            written = last.meta.get("from_node")
            yield buffer.get_name(), written[0].name if written else last.name


def _constants(graph: Any) -> tuple[tuple[GeneratedConstant, ...], bytes]:
    """Lay out constants like ``AotCodeCompiler``'s binary blob without CUDA constants."""
    found: list[GeneratedConstant] = []
    weights = bytearray()
    for name in graph.constants:
        if name in graph.folded_constants:
            continue
        tensor = graph.get_original_value_of_constant(name)
        data = _bytes(tensor)
        spec = GeneratedTensorSpec(
            name,
            str(tensor.dtype).removeprefix("torch."),
            tuple(tensor.shape),
            tuple(tensor.stride()),
            tensor.storage_offset(),
            tensor.device.type,
        )
        source = graph.allocated_constant_name[name]
        mutated = name in graph.mutated_buffers
        found.append(GeneratedConstant(spec, source, len(weights), len(data), mutated))
        weights += data + bytes(-len(data) % ALIGN_BYTES)
    return tuple(found), bytes(weights)


def _tensor(constant: GeneratedConstant, weights: bytes) -> torch.Tensor:
    spec = constant.spec
    shape, strides = ([int(extent) for extent in item] for item in (spec.shape, spec.strides))
    dtype: torch.dtype = getattr(torch, spec.dtype)
    data = bytearray(weights[constant.start : constant.start + constant.size])
    if not data:
        return torch.empty(shape, dtype=dtype)
    flat = torch.frombuffer(data, dtype=dtype)
    return flat.as_strided(shape, strides, int(spec.storage_offset or 0))


def _bytes(tensor: torch.Tensor) -> bytes:
    if tensor.numel() == 0:
        return b""
    storage = tensor.untyped_storage()
    return torch.empty(0, dtype=torch.uint8).set_(storage).numpy().tobytes()
