"""Programs that crashed mlx, read out of bounds or did not end are refused with a reason.

Executed in a worker process, so that one that is not refused is a failure of one test.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from backends.mlx.execution.executor import MlxExecutor
from backends.mlx.execution.tests.execution import Outcome, Worker
from backends.mlx.payload import reader
from backends.mlx.payload.tests.payloads import encode, graph, integer, mlx, slot, tensor_meta
from harness import UnsupportedProgram

_I32, _F32, _U32, _U8 = 3, 6, 28, 0
A, B, C, OUT = map(mlx.Tid, range(4))
INDICES, MORE = mlx.Tid(6), mlx.Tid(7)


class Bad(NamedTuple):
    """Nodes that write OUT from operands A, B, C, and why they are refused."""

    nodes: Any
    operands: Sequence[tuple[tuple[int, ...], int]]
    problem: str


def _filled(out: Any, value: float, *shape: int) -> Any:
    number = mlx.FloatOrVid.from_literal(value)
    return mlx.FullNode(shape=[*map(integer, shape)], v=number, scalar_type=_I32, out=out)


def _quantized(kind: str = "QuantizedMatmulNode", **fields: Any) -> Any:
    given = {"mode": "mxfp4", "group_size": 32, "bits": 4, "transpose": True, **fields}
    return getattr(mlx, kind)(x=A, w=B, scales=C, out=OUT, **given)


def _picked(index: int) -> list[Any]:
    made = _filled(INDICES, index, 2)
    return [made, mlx.GatherMmNode(a=A, b=B, out=OUT, lhs_indices=INDICES, sorted_indices=False)]


def _scan(*sources: Any, body: int) -> Any:
    slices = [mlx.Tid(8 + body + number) for number in range(len(sources))]
    return mlx.ScanNode(
        originals=[*sources], sliced=slices, outputs=[], carry=[], body_chain_idx=body, scan_axis=0
    )


_CONV = {"x": A, "w": B, "out": OUT}
_DIVISION = [_filled(INDICES, -(2.0**31), 9), _filled(MORE, -1.0, 9)]
_MANY = [mlx.AddNode(a=OUT, b=OUT, out=OUT)] * 2

BAD = {
    "reshape to negative sizes": Bad(
        [mlx.ReshapeNode(x=A, out=OUT, shape=[integer(-2), integer(-3)])],
        [((6,), _F32)],
        "cannot reshape to",
    ),
    "kernel wider than its input, and a stride": Bad(
        [mlx.Conv2DNode(**_CONV, stride_w=33)],
        [((2, 3, 2, 3), _F32), ((3, 3, 3, 3), _F32)],
        "a kernel that spans 3 exceeds the padded input size of 2",
    ),
    "convolution to no channels": Bad(
        [mlx.Conv1DNode(**_CONV)], [((2, 5, 2), _F32), ((0, 5, 2), _F32)], "weights have shape"
    ),
    "convolution that unfolds a lot": Bad(
        [mlx.Conv1DNode(**_CONV)],
        [((1, 65535, 1), _F32), ((1, 32767, 1), _F32)],
        "the unfolded input of a convolution would take",
    ),
    "attention with many scores": Bad(
        [mlx.SdpaNode(q=A, k=A, v=A, out=OUT, scale=1.0)],
        [((1, 1, 65536, 1), _F32)],
        "the scores of an attention would take",
    ),
    "scales of another rank": Bad(
        [_quantized(transpose=False)],
        [((1, 6), _F32), ((6, 16), _U32), ((4,), _U8)],
        "do not match",
    ),
    "group size without a kernel": Bad(
        [_quantized(mode="affine", group_size=16, biases=C)],
        [((1, 128), _F32), ((2, 16), _U32), ((2, 8), _F32)],
        "no kernel on this host",
    ),
    "no quantized weights to pick from": Bad(
        [
            _filled(INDICES, 0, 2),
            _quantized("GatherQmmNode", lhs_indices=INDICES, sorted_indices=False),
        ],
        [((2, 3, 128), _F32), ((2, 0, 16), _U32), ((2, 0, 4), _U8)],
        "one of them is empty",
    ),
    "matrix picked by a negative index": Bad(
        _picked(-1), [((2, 3, 4), _F32), ((2, 4, 5), _F32)], "index -1 is out of range"
    ),
    "size beyond 64 bits": Bad(
        [mlx.BroadcastToNode(x=A, out=OUT, shape=[integer(65536)] * 4)],
        [((1,), _F32)],
        "a result has shape",
    ),
    "scan beyond the end of a second tensor": Bad(
        [[_scan(A, B, body=1)], [mlx.NoopNode()]],
        [((3, 2), _F32), ((2, 2), _F32)],
        "scans 3 slices of tensors that have [3, 2] slices",
    ),
    "scan that runs on": Bad(
        [[mlx.IdCopyNode(x=B, out=OUT), _scan(A, body=1)], [_scan(A, body=2)], _MANY],
        [((300,), _F32), ((2,), _F32)],
        "runs more than 50000 instructions",
    ),
}

FINE = {
    "lowest integer by -1": Bad(
        [*_DIVISION, mlx.RemainderNode(a=INDICES, b=MORE, out=OUT)], [], "(9,)"
    ),
    "floor of the lowest integer by -1": Bad(
        [*_DIVISION, mlx.FloorDivideNode(a=INDICES, b=MORE, out=OUT)], [], "(9,)"
    ),
    "no rows of weights": Bad(
        [_quantized()], [((1, 128), _F32), ((0, 16), _U32), ((0, 4), _U8)], "(1, 0)"
    ),
    "no images": Bad(
        [mlx.Conv1DNode(**_CONV)], [((0, 5, 2), _F32), ((3, 2, 2), _F32)], "(0, 4, 3)"
    ),
}


def executed(worker: Worker, nodes: Any, operands: Any) -> Outcome:
    data = encode(
        graph(
            *(nodes if isinstance(nodes[0], list) else [nodes]),
            num_input_tensors=3,
            num_output_tensors=1,
            input_map=[*map(slot, range(len(operands)))],
            output_map=[slot(OUT.idx)],
            tensor_meta=[tensor_meta(*shape, scalar_type=dtype) for shape, dtype in operands],
        )
    )
    return worker(data, {}, 0)


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", BAD)
def test_it_is_refused(worker: Worker, name: str) -> None:
    nodes, operands, problem = BAD[name]
    outcome = executed(worker, nodes, operands)
    assert outcome.kind == "refused", outcome
    assert problem in outcome.detail


@pytest.mark.parametrize("name", FINE)
def test_it_has_a_result(worker: Worker, name: str) -> None:
    nodes, operands, shape = FINE[name]
    assert executed(worker, nodes, operands) == ("results", shape)


def test_buffers_larger_than_memory_are_refused() -> None:
    count = 500
    given = graph(
        [mlx.NoopNode()],
        num_mutable_buffer_tensors=count,
        mutable_buffer_map=[*map(slot, range(count))],
        tensor_meta=[tensor_meta(2**30)] * count,
    )
    with pytest.raises(UnsupportedProgram, match="the buffers would take"):
        MlxExecutor(reader.load(encode(given)), [])
