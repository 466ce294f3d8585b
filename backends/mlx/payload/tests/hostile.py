"""Programs of one instruction with fields and operands that rarely fit together.

Nodes with more conditions than a rank start from operands that fit, and some of these are changed:
random operands would always fail the first condition.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

from backends.mlx.payload import schema
from backends.mlx.payload.tests.payloads import graph, integer, mlx, nodes, slot, tensor_meta

_F32, _F16, _BF16, _I8, _I32, _I64, _U32, _BOOL, _U8 = 6, 5, 15, 1, 3, 4, 28, 11, 0
_DTYPES = (_F32, _F32, _F32, _F16, _BF16, _I32, _I64, _U32, _BOOL, _U8, _I8, 2)
_SIZES = (0, 1, 1, 2, 2, 3, 4, 5, 8, 16, 32, 33, 64)
_SMALL = (*range(-3, 5), 0, 0, 1, 1)
_ODD = (*range(-9, 12), 16, 31, 32, 33, 63, 64, 128, 2**15, 2**31 - 1, -(2**31))
_FLOATS = (0.0, -0.0, 1.0, 0.5, -2.0, 1e-30, 3e38, float("inf"), float("nan"))
_VALUES, _OUTPUTS = 3, 4

KINDS = tuple(
    kind for kind in nodes() if kind not in ("IfNode", "ScanNode", "NoopNode", "MetalKernelNode")
)

# How many elements a list has that no plan fills.
_COUNT = "count of elements"

Operand = tuple[list[int], int]
Plan = tuple[dict[str, Operand], dict[str, Any]]
Draw = random.Random


def _size(draw: Draw, most: int) -> int:
    return draw.randint(1, most) if draw.random() < 0.98 else 0


def _conv(rank: int, transposed: bool, draw: Draw) -> Plan:
    groups = draw.choice((1, 1, 2) if rank < 3 else (1, 1, 1, 1, 2))
    channels, kernel = groups * _size(draw, 3), draw.randint(1, 3)
    x = [_size(draw, 2), *(_size(draw, 6) for _ in range(rank)), channels]
    w = [groups * _size(draw, 3), *[kernel] * rank, channels // groups]
    return {"x": (x, _F32), "w": (w, _F32)}, {"groups": groups}


_MODES = (("affine", 32, 4), ("affine", 64, 8), ("affine", 32, 3), ("affine", 128, 2))
_MODES += (("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4))


def _quantized(stacked: bool, draw: Draw) -> Plan:
    mode, group, bits = draw.choice(_MODES)
    rows, inner = _size(draw, 9), draw.choice((group, 2 * group, 128))
    stack = [2] if stacked else []
    dtype, factors = (_F32, _F32) if mode == "affine" else (_F32, _U8)
    transpose = draw.random() < 0.7
    plan = {
        "x": ([*stack, _size(draw, 3), inner if transpose else rows], dtype),
        "w": ([*stack, rows, inner * bits // 32], _U32),
        "scales": ([*stack, rows, inner // group], factors),
        "lhs_indices": ([2], _U32),
        "rhs_indices": ([2], _U32),
    }
    if mode == "affine":
        plan["biases"] = plan["scales"]
    return plan, {"mode": mode, "group_size": group, "bits": bits, "transpose": transpose}


_LAYER = {"layer_id": 0, "scale": 0.5}


def _attention(draw: Draw) -> Plan:
    heads, head, length = draw.choice((1, 2)), draw.choice((4, 64, 80)), draw.randint(1, 9)
    kv = [1, heads, length, head]
    q = [1, heads * draw.choice((1, 2)), _size(draw, length), head]
    plan = {"q": (q, _F32), "k": (kv, _F32), "v": (kv, _F32), "position": ([1], _I32)}
    if draw.random() < 0.4:
        plan["mask"] = ([q[2], length], draw.choice((_F32, _BOOL)))
    return plan, {"causal": "mask" not in plan and draw.random() < 0.5, **_LAYER}


def _rope(draw: Draw) -> Plan:
    dims = draw.choice((2, 4, 8))
    x = [_size(draw, 2), _size(draw, 3), _size(draw, 4), dims + draw.choice((0, 4))]
    plan = {"x": (x, _F32)}
    if draw.random() < 0.4:
        plan["freqs"] = ([dims // 2], _F32)
    if draw.random() < 0.4:
        plan["offset"] = ([] if draw.random() < 0.5 else [x[0]], _I32)
    return plan, {"dims": dims}


def _norm(draw: Draw) -> Plan:
    x = [_size(draw, 3) for _ in range(draw.randint(0, 2))] + [draw.choice((1, 4, 33))]
    return {name: (x if name == "x" else x[-1:], _F32) for name in ("x", "weight", "bias")}, {}


def _indexed(draw: Draw) -> Plan:
    x = [_size(draw, 4) for _ in range(draw.randint(1, 3))]
    axis = draw.randrange(len(x))
    at = [*x[:axis], draw.randint(0, 4), *x[axis + 1 :]]
    plan = dict.fromkeys(("x", "dst"), (x, _F32))
    plan |= {"indices": (at, _I32), "updates": (at, _F32), "index": (at, _I32)}
    sizes = [_size(draw, max(size, 1)) for size in x]
    return plan, {"axis": axis, "slice_sizes": sizes, "axes": [axis], _COUNT: 1}


def _copied(draw: Draw) -> Plan:
    plan, fields = _indexed(draw)
    x, at = plan["x"][0], fields["axis"]
    count = draw.randint(0, x[at])
    rows = [*x[:at], count, *x[at + 1 :]]
    plan = {"dst": (x, _F32), "update": (rows, _F32), "indices": ([count], _I64)}
    return plan, {"axis": at}


def _sliced(draw: Draw) -> Plan:
    plan, fields = _copied(draw)
    at, count = fields["axis"], plan["indices"][0][0]
    start = draw.randint(0, plan["dst"][0][at] - count)
    ends = {"axis": at, "start": start, "stop": start + count}
    return plan, {name: integer(value) for name, value in ends.items()}


def _viewed(draw: Draw) -> Plan:
    shape = [_size(draw, 4) for _ in range(draw.randint(1, 3))]
    strides = [draw.randint(-1, 5) for _ in shape]
    fields = {"shape": [*map(integer, shape)], "strides": [*map(integer, strides)]}
    return {"x": ([64], _F32)}, {**fields, "offset": draw.choice((0, 1, 40, 2**63, 2**64 - 1))}


def _arranged(draw: Draw) -> Plan:
    """Of an array, fields that name every axis or all its sizes."""
    x = [_size(draw, 4) for _ in range(draw.randint(1, 4))]
    axes, total = list(range(len(x))), math.prod(x)
    shape = draw.choice(([total], [-1], [-1, x[0]], [*x, 1], [1, *x], x[::-1], [-1, -total]))
    width = [draw.randint(0, 2) for _ in range(2 * len(x))]
    fields = {
        "perm": draw.sample(axes, len(axes)),
        "shape": [*map(integer, shape)],
        "pad_width": [*map(integer, width)],
        "mode": draw.choice(("constant", "edge")),
        "axis": draw.choice(axes),
        "axes": axes,
        "dims": axes,
        "shift": [integer(draw.choice(_SMALL)) for _ in axes],
        "reps": [integer(draw.randint(0, 3)) for _ in axes],
        "repeats": integer(draw.randint(0, 3)),
        "kth": integer(0),
        "approximate": draw.choice(("none", "tanh")),
    }
    length = x[fields["axis"]]
    first = draw.randint(0, length)
    fields["sizes"] = [*map(integer, draw.choice(([-(-length // 2)], [first, length - first])))]
    return {"x": (x, draw.choice(_DTYPES)), "tensors": (x, _F32)}, fields


def _product(draw: Draw) -> Plan:
    m, k, n = (_size(draw, 5) for _ in range(3))
    plan = {"mat1": ([m, k], _F32), "mat2": ([k, n], _F32), "bias": ([n], _F32)}
    plan |= {"a": ([2, m, k], _F32), "b": ([2, k, n], _F32)}
    return plan | {f"{side}hs_indices": ([2], _U32) for side in "lr"}, {}


_ARRANGING = """
Reshape Transpose BroadcastTo Pad Split Tile Repeat Roll Flip Squeeze ExpandDims Concatenate Stack
Partition ArgPartition Sort Argsort Softmax Cumsum Argmax Argmin Gelu
Sum Mean Var Std Prod Max Min Median Any All LogSumExp
"""
_PLANS: dict[str, Callable[[Draw], Plan]] = {
    **{
        f"Conv{word}{rank}DNode": lambda draw, rank=rank, word=word: _conv(rank, bool(word), draw)
        for rank in (1, 2, 3)
        for word in ("", "Transpose")
    },
    "QuantizedMatmulNode": lambda draw: _quantized(False, draw),
    "DequantizeNode": lambda draw: _quantized(False, draw),
    "GatherQmmNode": lambda draw: _quantized(True, draw),
    "SdpaNode": _attention,
    "UpdateAndAttendNode": _attention,
    "RopeNode": _rope,
    "RMSNormNode": _norm,
    "LayerNormNode": _norm,
    **dict.fromkeys(("TakeNode", "TakeAlongAxisNode", "GatherNode", "ScatterAddNode"), _indexed),
    "IndexCopyNode": _copied,
    "SliceUpdateNode": _sliced,
    "AsStridedNode": _viewed,
    **{f"{name}Node": _arranged for name in _ARRANGING.split()},
    **dict.fromkeys(("AddmmNode", "GatherMmNode"), _product),
}


class _Maker:
    """Draws the fields of one node, and the operands that they name."""

    def __init__(self, kind: str, draw: Draw) -> None:
        self.kind, self.draw = kind, draw
        self.operands: list[Operand] = []
        self.plan, self.fields = _PLANS[kind](draw) if kind in _PLANS else ({}, {})
        self.wild = draw.choice((0.0, 0.05, 0.3)) if kind in _PLANS else draw.choice((0.02, 0.3))
        self.shape = self._shape()

    def make(self) -> Any:
        fields = {field.name: self._field(field) for field in schema.load().tables[self.kind]}
        return getattr(mlx, self.kind)(**fields)

    def _count(self) -> int:
        return self.draw.randint(1, _OUTPUTS) if self._odd() else 2

    def _odd(self, part: float = 1.0) -> bool:
        return self.draw.random() < self.wild * part

    def _shape(self) -> list[int]:
        sizes = _SIZES if self.draw.random() < 0.3 else _SIZES[1:9]
        return [self.draw.choice(sizes) for _ in range(self.draw.choice((0, 1, 2, 2, 3, 3, 4, 6)))]

    def _field(self, field: schema.MlxField) -> Any:
        name = field.name
        if name in ("out", "outs"):
            made = range(_OUTPUTS)[: self._count() if field.vector else 1]
            slots = [("out", number) for number in made]
            return slots if field.vector else (mlx.Vid(0) if field.type == "Vid" else slots[0])
        optional = not field.required and field.default is None and not field.vector
        if self.plan and optional and name not in self.plan and name not in self.fields:
            return self._one(field) if self._odd() else None
        if optional and not self.plan and self.draw.random() < 0.5:
            return None
        if name in self.fields and not self._odd(0.5):
            return self.fields[name]
        if self.plan and not field.required and not self._odd() and name not in self.plan:
            return [] if field.vector else field.default
        if field.vector:
            count = self.draw.choice((len(self.shape), self.draw.randint(0, 4)))
            if not self._odd():
                count = self.fields.get(_COUNT, count)
            if name == "pad_width":
                count *= 2
            return [self._one(field) for _ in range(count)]
        return self._one(field)

    def _one(self, field: schema.MlxField) -> Any:  # noqa: C901 (a case for each type)
        match field.type:
            case "Tid":
                return self._operand(field.name)
            case "Vid":
                return mlx.Vid(self.draw.randrange(_VALUES))
            case "IntOrVid":
                return integer(mlx.Vid(1) if self._odd(0.3) else self._number())
            case "FloatOrVid":
                return mlx.FloatOrVid.from_literal(self.draw.choice(_FLOATS))
            case "VidOrTid":
                if field.name in self.plan or self._odd():
                    return ("tid", mlx.VidOrTid, self._operand(field.name))
                return mlx.VidOrTid.from_vid(mlx.Vid(1))
            case "IntOrVidOrTid":
                if self.draw.random() < 0.6:
                    return ("tid", mlx.IntOrVidOrTid, self._operand(field.name))
                return mlx.IntOrVidOrTid.from_literal(self._number())
            case "string":
                modes = ("affine", "mxfp4", "mxfp8", "nvfp4", "constant", "edge", "none", "tanh")
                return self.draw.choice(modes)
            case "bool":
                return self.draw.random() < 0.5
            case "float":
                return self.draw.choice(_FLOATS) if self._odd() else 0.5
        if "type" in field.name:
            return self.draw.choice(_DTYPES)
        if field.name == "width":
            return self.draw.choice((1, 2, 4))
        return self._number()

    def _number(self) -> int:
        return self.draw.choice(_ODD if self._odd() else _SMALL)

    def _operand(self, name: str) -> tuple[str, int]:
        """A new one most of the time, so that operands are seldom one array."""
        if self.operands and self._odd(0.2):
            return "in", self.draw.randrange(len(self.operands))
        alike = self.shape if self.draw.random() < 0.7 else self._shape()
        dtype = self.draw.choice(_DTYPES) if self.draw.random() < 0.5 else _F32
        shape, dtype = self.plan.get(name, (alike, dtype))
        shape = list(shape)
        if self._odd():
            dtype = self.draw.choice(_DTYPES)
        if self._odd():
            shape = self._changed(shape)
        self.operands.append((shape, dtype))
        return "in", len(self.operands) - 1

    def _changed(self, shape: list[int]) -> list[int]:
        place = self.draw.randint(0, len(shape))
        match self.draw.randrange(3):
            case 0 if shape:
                shape[place % len(shape)] = self.draw.choice(_SIZES)
            case 1 if shape:
                del shape[place % len(shape)]
            case _:
                shape.insert(place, self.draw.choice(_SIZES))
        return shape


def program(kind: str, seed: int) -> mlx.MLXGraph:
    """An instruction of a type with inputs of its own; every result is an output."""
    maker = _Maker(kind, random.Random(f"{kind} {seed}"))
    node = maker.make()
    inputs = len(maker.operands)

    def placed(value: Any) -> Any:
        match value:
            case ("in", number):
                return mlx.Tid(number)
            case ("out", number):
                return mlx.Tid(inputs + number)
            case ("tid", kind, inner):
                return kind.from_tid(placed(inner))
            case list():
                return [placed(item) for item in value]
        return value

    for name, value in vars(node).items():
        setattr(node, name, placed(value))
    written = getattr(node, "outs", None) or [node.out]
    outputs = [slot(out.idx) if isinstance(out, mlx.Tid) else slot(0, 1) for out in written]
    return graph(
        [node],
        num_input_tensors=inputs,
        num_output_tensors=_OUTPUTS,
        input_map=[*map(slot, range(inputs)), slot(1, 1), slot(2, 1)],
        output_map=outputs,
        tensor_meta=[tensor_meta(*shape, scalar_type=dtype) for shape, dtype in maker.operands],
    )
