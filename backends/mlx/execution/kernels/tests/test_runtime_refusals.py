"""Refusals of single nodes, compared with the delegate's runtime sources (see ``single``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mlx.core as mx
import pytest

from backends.mlx.execution.kernels.tests.single import OUT, T, run
from backends.mlx.payload.tests.payloads import integer, mlx
from harness import ProgramError


def literals(*numbers: int) -> list[Any]:
    return [integer(number) for number in numbers]


class Case(NamedTuple):
    """Nodes and the shape that they give, or None where the runtime throws."""

    nodes: Callable[[], Sequence[Any]]
    inputs: tuple[mx.array, ...]
    shape: tuple[int, ...] | None
    source: str


def zeros(*shape: int, dtype: mx.Dtype = mx.float32) -> mx.array:
    return mx.zeros(shape, dtype)


def at(*numbers: int) -> mx.array:
    return mx.array(numbers, mx.int64)


def node(kind: str, **fields: Any) -> Callable[[], list[Any]]:
    return lambda: [getattr(mlx, kind)(**({"out": OUT} | fields))]


def pad(*widths: int) -> Callable[[], list[Any]]:
    return node("PadNode", x=T(0), pad_width=literals(*widths), mode="constant")


def roll(shifts: Sequence[int], axes: Sequence[int]) -> Callable[[], list[Any]]:
    return node("RollNode", x=T(0), shift=literals(*shifts), axes=list(axes))


def split(sizes: Sequence[int], axis: int = 0) -> Callable[[], list[Any]]:
    outs = [OUT, *(T(50 + number) for number in range(len(sizes) - 1))]
    return lambda: [mlx.SplitNode(x=T(0), outs=outs, sizes=literals(*sizes), axis=axis)]


def scan() -> list[list[Any]]:
    body = [mlx.AddNode(a=T(40), b=T(41), out=OUT)]
    loop = mlx.ScanNode(
        originals=[T(0), T(1)],
        sliced=[T(40), T(41)],
        outputs=[OUT],
        carry=[],
        body_chain_idx=1,
        scan_axis=0,
    )
    return [[loop], body]


INDEX_COPY = node("IndexCopyNode", dst=T(0), update=T(1), indices=T(2), axis=0)
CONV = {
    f"{name}_{axis}": 0 if name == "padding" else 1
    for name in ("stride", "padding", "dilation")
    for axis in "dhw"
}
CONV3D = node("Conv3DNode", x=T(0), w=T(1), **CONV, groups=2)
SDPA = node("SdpaNode", q=T(0), k=T(1), v=T(2), scale=1.0)
NORM = node("RMSNormNode", x=T(0), weight=T(1), eps=1e-5)
PRODUCT = node(
    "QuantizedMatmulNode",
    x=T(0),
    w=T(1),
    scales=T(2),
    mode="affine",
    group_size=32,
    bits=4,
)
X = zeros(2, 3)
QUANTIZED = (zeros(8, 4, dtype=mx.uint32), zeros(8, 1))

REFUSALS = {
    "pad: a pair for each axis": Case(pad(1, 1, 0, 2), (X,), (4, 5), "Interpreter:777"),
    "pad: one pair for two axes": Case(pad(1, 1), (X,), None, "ops:1484"),
    "pad: one pair for a scalar": Case(pad(1, 1), (zeros(),), None, "ops:1484"),
    "pad: no pair": Case(pad(), (X,), None, "ops:1484"),
    "pad: less than nothing": Case(pad(0, -1, 0, 0), (X,), None, "ops:1494"),
    "index_copy": Case(INDEX_COPY, (X, zeros(1, 3), at(1)), (2, 3), "Interpreter:1294"),
    "index_copy: broadcast": Case(INDEX_COPY, (X, zeros(1, 1), at(1)), (2, 3), "ops:886"),
    "index_copy: a lower rank": Case(INDEX_COPY, (X, zeros(3), at(1)), None, "Interpreter:1363"),
    "index_copy: a higher rank": Case(INDEX_COPY, (X, zeros(1, 1, 3), at(1)), None, "ops:886"),
    "index_copy: part of a lower rank": Case(
        INDEX_COPY, (X, zeros(2), at(1, 0)), None, "Interpreter:1379"
    ),
    "index_copy: no index": Case(INDEX_COPY, (X, zeros(3), at()), (2, 3), "Interpreter:1341"),
    "roll": Case(roll([1], [0]), (X,), (2, 3), "ops:6490"),
    "roll: more shifts than axes": Case(roll([1, 2], [0]), (X,), (2, 3), "ops:6499"),
    "roll: fewer shifts than axes": Case(roll([1], [0, 1]), (X,), None, "ops:6499"),
    "roll: no axis": Case(roll([1], []), (X,), (2, 3), "ops:6495"),
    "split": Case(split([1, 1]), (X,), (1, 3), "Interpreter:662"),
    "split: cuts behind the end": Case(split([3, 1]), (X,), (2, 3), "ops:1138"),
    "split: the last size is not read": Case(split([1, -5]), (X,), (1, 3), "Interpreter:701"),
    "split: beyond int32": Case(
        split([2**31 - 1, 2**31 - 1, 1]), (X,), None, "Interpreter:706"
    ),
    "split: an axis that is none": Case(split([1, 1], 2), (X,), None, "ops:1107"),
    "scan: as long as the first": Case(
        scan, (zeros(2, 3), zeros(4, 3)), (2, 3), "Interpreter:1978"
    ),
    "scan: a shorter one": Case(scan, (zeros(4, 3), zeros(2, 3)), None, "ops:559"),
    "conv3d: groups": Case(
        CONV3D, (zeros(1, 2, 2, 2, 4), zeros(2, 1, 1, 1, 2)), None, "ops:4419"
    ),
    "conv3d: many products in groups": Case(
        CONV3D, (zeros(1, 16, 16, 16, 64), zeros(64, 3, 3, 3, 32)), None, "ops:4419"
    ),
    "gelu: any other word": Case(
        node("GeluNode", x=T(0), approximate="word"), (X,), (2, 3), "Interpreter:580"
    ),
    "quantized_matmul: no rows, no biases": Case(
        PRODUCT, (zeros(0, 32), *QUANTIZED), None, "ops:4565"
    ),
    "sdpa: three dimensions": Case(SDPA, (zeros(1, 2, 4),) * 3, None, "fast:622"),
    "sdpa: heads that are no multiple": Case(
        SDPA, (zeros(1, 3, 2, 4), zeros(1, 2, 2, 4), zeros(1, 2, 2, 4)), None, "fast:697"
    ),
    "sdpa: integers": Case(SDPA, (zeros(1, 1, 2, 4, dtype=mx.int32),) * 3, None, "fast:705"),
    "rms_norm: a weight of another size": Case(NORM, (X, zeros(2)), None, "fast:73"),
    "rms_norm: integers": Case(
        NORM, (zeros(2, 3, dtype=mx.int32), zeros(3, dtype=mx.int32)), None, "fast:83"
    ),
    "rms_norm: integers, a float weight": Case(
        NORM, (zeros(2, 3, dtype=mx.int32), zeros(3)), (2, 3), "fast:82"
    ),
    "concatenate: other sizes": Case(
        node("ConcatenateNode", tensors=[T(0), T(1)], axis=0), (X, zeros(2, 2)), None, "ops:1308"
    ),
    "stack: other sizes": Case(
        node("StackNode", tensors=[T(0), T(1)], axis=0), (X, zeros(2, 2)), None, "ops:1343"
    ),
    "arange: empty": Case(
        node("ARangeNode", **dict(zip(("start", "stop", "step"), literals(3, 3, 1), strict=True))),
        (),
        None,
        "Executor:636",
    ),
    "full: a size of 0": Case(
        node("FullNode", shape=literals(0), v=mlx.FloatOrVid.from_literal(1.0), scalar_type=6),
        (),
        None,
        "Executor:636",
    ),
    "repeat: less than once": Case(
        node("RepeatNode", x=T(0), axis=0, repeats=integer(-1)), (X,), None, "Interpreter:1883"
    ),
    "transpose: too few axes": Case(
        node("TransposeNode", x=T(0), perm=[0]), (X,), None, "ops:1635"
    ),
    "slice: an axis that is none": Case(
        node("SliceNode", x=T(0), axis=integer(2), start=integer(0), stop=integer(1), step=1),
        (X,),
        None,
        "Interpreter:887",
    ),
    "take: behind the end": Case(
        node("TakeNode", x=T(0), axis=0, index=mlx.IntOrVidOrTid.from_literal(2)),
        (X,),
        None,
        "Interpreter:190",
    ),
    "squeeze: an axis of another size is kept": Case(
        node("SqueezeNode", x=T(0), dims=[0, 7]), (X,), (2, 3), "Interpreter:642"
    ),
    "broadcast_to: a new axis of size -1": Case(
        node("BroadcastToNode", x=T(0), shape=literals(-1, 2, 3)), (X,), None, "ops:1683"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_a_node_is_refused_where_the_runtime_throws(name: str) -> None:
    case = REFUSALS[name]
    if case.shape is None:
        with pytest.raises(ProgramError):
            run(case.nodes(), *case.inputs)
    else:
        assert tuple(run(case.nodes(), *case.inputs).shape) == case.shape, case.source
