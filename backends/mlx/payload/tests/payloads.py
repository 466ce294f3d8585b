"""Shared by the payload tests: real programs, hand-made graphs, samples of every node type."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from backends.mlx import codegen
from backends.mlx.payload import schema
from harness.backend_api import DelegatePayload, Program

codegen.install()

from executorch.backends.mlx import MLXPartitioner, preprocess  # noqa: E402
from executorch.backends.mlx.passes import get_default_passes  # noqa: E402
from executorch.backends.mlx.serialization import (  # noqa: E402
    mlx_graph_schema as mlx,
    mlx_graph_serialize as serializers,
)
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower  # noqa: E402

SLOTS = 64
_LISTS = ("input_map", "output_map", "mutable_buffer_map", "named_slots", "tensor_meta")

encode = serializers.serialize_mlx_graph

_PACKAGE = "executorch.backends.mlx.serialization"
generated_serializers = importlib.import_module(f"{_PACKAGE}._generated_serializers")


def bindings(table: str) -> Any:
    """The class that flatc generated for a table."""
    module = f"{_PACKAGE}._generated.mlx_delegate.{table}"
    return getattr(importlib.import_module(module), table)


class Mlp(torch.nn.Module):
    """Constants, a mutable buffer, an activation, in-place updates."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)
        self.calls = torch.nn.Buffer(torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return torch.nn.functional.gelu(self.linear(x))[:, 1:3].sum(0) + self.calls[1:3]


class Dynamic(torch.nn.Module):
    """A dynamic size: value slots, and literals mixed with them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = torch.arange(x.shape[0], dtype=torch.float32).reshape(-1, 1)
        more = torch.full((x.shape[0] * 2, 3), 0.5)
        return torch.cat([(x + rows).reshape(x.shape[0] * 2, -1), more])[1:].softmax(-1)


class Conv(torch.nn.Module):
    """Layout changes, padding, pooling, a reduction."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 4, 3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        padded = torch.nn.functional.pad(x, (1, 1, 0, 2))
        return torch.nn.functional.max_pool2d(self.conv(padded).relu(), 2).mean((2, 3))


class Attention(torch.nn.Module):
    """Embedding, attention, normalisation: index tensors and optional slots."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(16, 8)
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.embedding(ids)).reshape(1, -1, 2, 4).transpose(1, 2)
        y = torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        return torch.cat([y, x], 1).argmax(-1)


_PROGRAMS: dict[str, Callable[[], tuple[torch.nn.Module, tuple[Any, ...], Any]]] = {
    "mlp": lambda: (Mlp(), (torch.randn(3, 8),), None),
    "dynamic": lambda: (
        Dynamic(),
        (torch.randn(4, 6),),
        ({0: torch.export.Dim("rows", min=2, max=16)},),
    ),
    "conv": lambda: (Conv(), (torch.randn(1, 2, 8, 8),), None),
    "attention": lambda: (Attention(), (torch.randint(0, 16, (1, 5)),), None),
}


def lower(
    module: torch.nn.Module, inputs: tuple[Any, ...], dynamic: Any = None
) -> tuple[DelegatePayload, mlx.MLXGraph]:
    """A module's first payload, and the graph that executorch serialized into it."""
    graphs: list[mlx.MLXGraph] = []

    def spy(given: mlx.MLXGraph) -> bytes:
        graphs.append(given)
        return encode(given)

    upstream = preprocess.serialize_mlx_graph
    preprocess.serialize_mlx_graph = spy
    try:
        program = to_edge_transform_and_lower(
            torch.export.export(module.eval(), inputs, dynamic_shapes=dynamic, strict=False),
            transform_passes=get_default_passes(),
            partitioner=[MLXPartitioner()],
            compile_config=EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True),
        ).to_executorch()
    finally:
        preprocess.serialize_mlx_graph = upstream
    delegates = Program(bytes(program.buffer)).delegates
    assert len(delegates) == len(graphs) == 1
    return delegates[0], graphs[0]


@functools.cache
def real(name: str) -> tuple[DelegatePayload, mlx.MLXGraph]:
    """One of the real programs, lowered once a process."""
    module, inputs, dynamic = _PROGRAMS[name]()
    return lower(module, inputs, dynamic)


NAMES = tuple(_PROGRAMS)


def graph(*chains: Sequence[Any] | Any, **fields: Any) -> mlx.MLXGraph:
    """A graph of chains, or of one chain of nodes; 64 temporary slots, 64 value slots."""
    listed = chains if chains and isinstance(chains[0], list) else (list(chains),)
    given: dict[str, Any] = {
        "version": "1",
        "num_temp_tensors": SLOTS,
        "num_values": SLOTS,
        **{name: [] for name in _LISTS},
        **fields,
    }
    wrapped = [mlx.InstructionChain([mlx.Instruction(op) for op in chain]) for chain in listed]
    return mlx.MLXGraph(instruction_chains=wrapped, **given)


def integer(value: int | mlx.Vid) -> mlx.IntOrVid:
    """A literal, or a value slot."""
    if isinstance(value, mlx.Vid):
        return mlx.IntOrVid.from_vid(value)
    return mlx.IntOrVid.from_literal(value)


def tensor_meta(*dims: int | tuple[int, int], scalar_type: int = 6) -> mlx.TensorMeta:
    """A declaration; a dynamic dimension is a pair of bounds, -1 for none above."""
    shape = [mlx.ShapeDim(d) if isinstance(d, int) else mlx.ShapeDim(-1, *d) for d in dims]
    return mlx.TensorMeta(shape, scalar_type, list(range(len(dims))))


def slot(index: int, kind: int = 0) -> mlx.SlotVariant:
    """An entry of a map."""
    return mlx.SlotVariant(kind, index)


def with_constant(*chains: Any, meta: Any = None, name: str | None = "w", **fields: Any) -> Any:
    """A graph whose tensor slot 0 is a constant of shape (2, 3)."""
    return graph(
        *chains,
        num_constant_tensors=1,
        named_slots=[] if name is None else [mlx.NamedSlot(name, slot(0))],
        tensor_meta=[tensor_meta(2, 3)] if meta is None else meta,
        **fields,
    )


def nodes() -> tuple[str, ...]:
    """Every node type of the schema."""
    return schema.load().nodes


# Fields that rules constrain; all other fields of a sample are generated from their types.
_QUANTIZED = {"mode": "affine", "group_size": 32, "bits": 4}
_VALID: dict[str, dict[str, Any]] = {
    "GeluNode": {"approximate": "tanh"},
    "PadNode": {"mode": "edge"},
    "RandomBitsNode": {"width": 2},
    **dict.fromkeys(("QuantizedMatmulNode", "GatherQmmNode", "DequantizeNode"), _QUANTIZED),
    "MetalKernelNode": {
        "grid": [integer(4), integer(mlx.Vid(3)), integer(1)],
        "threadgroup": [integer(1)] * 3,
        "output_shape_lengths": [2, 0],
        "template_arg_kinds": [0, 2],
        "template_arg_values": [3, 6],
    },
}


# Optional fields that a node cannot do without.
_NEEDED = {
    "UpdateAndAttendNode": ("layer_id", "scale"),
    "MetalKernelNode": (
        *("input_names", "output_names"),
        *("output_shapes_flat", "output_shape_lengths", "output_dtypes"),
    ),
}


def sample(kind: str, *, full: bool = True, **fields: Any) -> Any:
    """A valid node of a type: with all its fields, or with those only that it must have.

    Tensor slots count up from 0, value slots and numbers from 1; chains are chain 1.
    """
    node = getattr(mlx, kind)
    values: dict[str, Any] = {}
    for number, field in enumerate(schema.load().tables[kind]):
        if full or field.required or field.name in _NEEDED.get(kind, ()):
            one = _one(field, number)
            values[field.name] = [one, _one(field, number + 20)] if field.vector else one
        elif field.default is not None and getattr(node, field.name, None) is None:
            # The serializer wants a number even where the schema has a default.
            values[field.name] = 1 if field.name.endswith("chain_idx") else field.default
    valid = {name: value for name, value in _VALID.get(kind, {}).items() if name in values}
    return node(**(values | valid | fields))


def _one(field: schema.MlxField, number: int) -> Any:
    match field.type:
        case "Tid":
            return mlx.Tid(number)
        case "Vid":
            return mlx.Vid(number + 1)
        case "IntOrVid":
            return integer(mlx.Vid(number) if number % 2 else number + 1)
        case "FloatOrVid":
            return mlx.FloatOrVid.from_literal(number + 0.1)
        case "VidOrTid":
            return mlx.VidOrTid.from_vid(mlx.Vid(number))
        case "IntOrVidOrTid":
            return mlx.IntOrVidOrTid.from_tid(mlx.Tid(number))
        case "string":
            return f"text {number} ü"
        case "bool":
            return field.default is not True
        case "float":
            return number + 0.5
    if "type" in field.name:
        return 6
    return 1 if field.name.endswith("chain_idx") else number + 1
