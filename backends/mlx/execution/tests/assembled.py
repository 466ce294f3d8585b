"""Programs assembled by hand, for instructions and fields that executorch never emits.

No module lowers to these, so no cell of a suite executes them, but a payload may contain them.
Expected results come from NumPy or torch, or are given with the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy
import torch

from backends.mlx.execution.executor import MlxExecutor, Observer
from backends.mlx.payload import reader
from backends.mlx.payload.tests.payloads import encode, graph, integer, mlx, slot

Array = numpy.ndarray[Any, Any]

V = mlx.Vid
_I32, _F32 = 3, 6


@dataclass(frozen=True)
class Assembled:
    """A program with one result.

    Attributes:
        nodes: makes the main chain, or a list of all chains, from tensor slots: first the inputs,
            then the output, then eight temporaries.
        inputs: arrays, in the order of their slots; integers go to value slots from 0.
        expected: the result.
        tolerance: how far the result may be off, relative to 1 and to itself.
    """

    nodes: Callable[..., Sequence[Any]]
    inputs: tuple[Any, ...]
    expected: Any
    tolerance: float = 0.0

    def run(self, observer: Observer | None = None) -> Array:
        """Encode, decode and execute the program."""
        arrays = [mx.array(item) for item in self.inputs if not isinstance(item, int)]
        numbers = [item for item in self.inputs if isinstance(item, int)]
        count = len(arrays)
        nodes = self.nodes(*map(mlx.Tid, range(count + 9)))
        encoded = encode(
            graph(
                *(nodes if isinstance(nodes[0], list) else [list(nodes)]),
                num_input_tensors=count,
                num_output_tensors=1,
                input_map=[*map(slot, range(count)), *(slot(i, 1) for i in range(len(numbers)))],
                output_map=[slot(count)],
            )
        )
        program = MlxExecutor(reader.load(encoded), [])
        return numpy.array(program([*arrays, *numbers], observer=observer)[0])


def _floats(*shape: int, dtype: Any = numpy.float32) -> Array:
    return numpy.random.default_rng(0).standard_normal(shape).astype(dtype)


def _literals(*numbers: Any) -> list[Any]:
    return [*map(integer, numbers)]


def _full(out: Any, value: Any) -> Any:
    held = mlx.FloatOrVid.from_vid if isinstance(value, V) else mlx.FloatOrVid.from_literal
    return mlx.FullNode(shape=[], v=held(value), scalar_type=_I32, out=out)


def _number(operation: Any, a: int, b: int, expected: int) -> Assembled:
    """An operation on a value slot and a literal, its result as a tensor."""
    return Assembled(
        lambda out, *_: [
            operation(a=integer(V(0)), b=integer(b), out=V(1)),
            _full(out, V(1)),
        ],
        (a,),
        numpy.int32(expected),
    )


def _rotated(x: Array, starts: Sequence[float]) -> Array:
    """Rotary embedding over all 8 dimensions, with a separate position for each batch."""
    positions = numpy.array(starts)[:, None, None, None] + numpy.arange(x.shape[2])[:, None]
    angles = positions * 10000.0 ** -(numpy.arange(4) / 4)
    left, right = x[..., :4], x[..., 4:]
    cos, sin = numpy.cos(angles), numpy.sin(angles)
    turned = numpy.concatenate([left * cos - right * sin, left * sin + right * cos], -1)
    return turned.astype(x.dtype)


def _changed(array: Array, index: Any, new: Array) -> Array:
    copy = array.copy()
    copy[index] = new
    return copy


_X = _floats(4, 5)
_ROWS = _floats(2, 5)
_INTEGERS = numpy.arange(-9, 10, dtype=numpy.int32)
_STEPS = _INTEGERS[:18].reshape(3, 6)
_LONG = _floats(2, 999, dtype=numpy.float16)
_STACK, _MATRICES = _floats(3, 2, 4), _floats(5, 4, 6)
_LEFT, _RIGHT = numpy.array([2, 0, 1, 1], numpy.uint32), numpy.array([0, 0, 3, 4], numpy.uint32)
_TAKE = mlx.IntOrVidOrTid

# fmt: off
PROGRAMS: dict[str, Assembled] = {
    "noop": Assembled(
        lambda x, out, *_: [mlx.NoopNode(), mlx.IdCopyNode(x=x, out=out), mlx.NoopNode()],
        (_X,), _X),
    "median": Assembled(
        lambda x, out, *_: [mlx.MedianNode(x=x, out=out, axes=[0], keepdims=True)],
        (_X,), numpy.median(_X, 0, keepdims=True)),
    "median_of_all": Assembled(
        lambda x, out, *_: [mlx.MedianNode(x=x, out=out, axes=[], keepdims=False)],
        (_X,), numpy.median(_X)),
    "tri": Assembled(
        lambda x, out, *_: [
            mlx.SymSizeNode(a=x, dim=-1, out=V(0)),
            mlx.TriNode(out=out, n=integer(3), m=integer(V(0)), k=-1, scalar_type=_I32)],
        (_X,), numpy.tri(3, 5, -1, dtype=numpy.int32)),
    "softmax_precise": Assembled(
        lambda x, out, *_: [mlx.SoftmaxNode(x=x, out=out, axis=-1, precise=True)],
        (_LONG,), torch.softmax(torch.from_numpy(_LONG).float(), -1).half(), 1e-5),
    "pad_with_the_edge": Assembled(
        lambda x, out, *_: [
            mlx.PadNode(x=x, out=out, pad_width=_literals(1, 2, 0, V(0)), mode="edge")],
        (_X, 3), numpy.pad(_X, ((1, 2), (0, 3)), "edge")),
    "cumsum_of_what_follows": Assembled(
        lambda x, out, *_: [mlx.CumsumNode(x=x, out=out, axis=-1, reverse=True, inclusive=False)],
        (_INTEGERS,), (_INTEGERS.sum() - numpy.cumsum(_INTEGERS)).astype(numpy.int32)),
    "round_to_decimals": Assembled(
        lambda x, out, *_: [mlx.RoundNode(x=x, out=out, decimals=2)], (_X,), _X.round(2), 1e-6),
    "rope_from_an_offset_a_batch": Assembled(
        lambda x, at, out, *_: [
            mlx.RopeNode(x=x, out=out, dims=8, offset=mlx.VidOrTid.from_tid(at),
                         traditional=False, base=10000.0, scale=1.0)],
        (_floats(2, 1, 3, 8), numpy.array([2, 7], numpy.int32)),
        _rotated(_floats(2, 1, 3, 8), (2, 7)), 1e-6),
    "take_the_last": Assembled(
        lambda x, out, *_: [mlx.TakeNode(x=x, out=out, index=_TAKE.from_literal(-1), axis=-1)],
        (_X,), _X[:, -1]),
    "gather_mm_of_two_stacks": Assembled(
        lambda a, b, left, right, out, *_: [
            mlx.GatherMmNode(a=a, b=b, out=out, lhs_indices=left, rhs_indices=right,
                             sorted_indices=True, sorted_indices_flag=integer(V(0)))],
        (_STACK, _MATRICES, _LEFT, _RIGHT, 0), _STACK[_LEFT] @ _MATRICES[_RIGHT], 1e-6),
    "gather_windows": Assembled(
        lambda x, rows, out, *_: [
            mlx.GatherNode(x=x, indices=[rows], out=out, axes=[0], slice_sizes=[2, 3])],
        (_X, numpy.array([[-4], [1]], numpy.int32)),
        numpy.stack([_X[0:2, :3], _X[1:3, :3]])[:, None]),
    "slice_update_elsewhere": Assembled(
        lambda x, rows, out, copy, *_: [
            mlx.SliceUpdateNode(dst=x, update=rows, out=copy, axis=integer(-2),
                                start=integer(-4), stop=integer(99), step=2),
            mlx.AddNode(a=x, b=copy, out=out)],
        (_X, _ROWS), _X + _changed(_X, slice(0, None, 2), _ROWS)),
    "slice_update_of_nothing": Assembled(
        lambda x, rows, out, *_: [
            mlx.SliceUpdateNode(dst=x, update=rows, out=out, axis=integer(0), start=integer(3),
                                stop=integer(3))],
        (_X, _ROWS), _X),
    "index_copy_elsewhere": Assembled(
        lambda x, rows, at, out, copy, *_: [
            mlx.IndexCopyNode(dst=x, update=rows, indices=at, out=copy, axis=0),
            mlx.AddNode(a=x, b=copy, out=out)],
        (_X, _ROWS, numpy.array([-1, 0])), _X + _changed(_X, [3, 0], _ROWS)),
    "arange_without_dtype": Assembled(
        lambda out, *_: [
            mlx.ARangeNode(out=out, start=integer(V(0)), stop=integer(-5), step=integer(-3))],
        (7,), numpy.array([7, 4, 1, -2], numpy.int32)),
    "full_like_in_its_dtype": Assembled(
        lambda x, out, *_: [mlx.FullLikeNode(x=x, out=out, v=mlx.FloatOrVid.from_literal(2.5))],
        (_INTEGERS,), numpy.full_like(_INTEGERS, 2)),
    "addmm_with_factors": Assembled(
        lambda a, b, bias, out, *_: [
            mlx.AddmmNode(mat1=a, mat2=b, out=out, bias=bias, alpha=-2.0, beta=0.5)],
        (_X, _floats(5, 3), _floats(3)), -2 * _X @ _floats(5, 3) + _floats(3) / 2, 1e-5),
    "as_strided_from_an_offset": Assembled(
        lambda x, out, *_: [
            mlx.AsStridedNode(x=x, out=out, shape=_literals(2, V(0)), strides=_literals(5, 1),
                              offset=6)],
        (_X, 3), _X[1:3, 1:4]),
    "broadcast_keeping_sizes": Assembled(
        lambda x, out, *_: [mlx.BroadcastToNode(x=x, out=out, shape=_literals(2, -1, -1))],
        (_X,), numpy.broadcast_to(_X, (2, 4, 5))),
    "split_with_a_rest": Assembled(
        lambda x, out, a, b, c, *_: [
            mlx.SplitNode(x=x, outs=[a, b, c], sizes=_literals(V(0)), axis=-1),
            mlx.ConcatenateNode(tensors=[c, a, b], out=out, axis=1)],
        (_X, 2), _X[:, [4, 0, 1, 2, 3]]),
    "squeeze_what_is_not_single": Assembled(
        lambda x, out, *_: [mlx.SqueezeNode(x=x, out=out, dims=[-1, 0])], (_X[:1],), _X[0]),
    "clip_on_one_side": Assembled(
        lambda x, low, out, *_: [mlx.ClipNode(x=x, out=out, a_min=low)],
        (_X, numpy.float32(0.25)), numpy.maximum(_X, numpy.float32(0.25))),
    # exec_floor_divide: a quotient of integers keeps its fraction.
    "floor_divide_of_integers": Assembled(
        lambda x, out, four, *_: [_full(four, 4.0), mlx.FloorDivideNode(a=x, b=four, out=out)],
        (_INTEGERS,),
        (_INTEGERS / 4 - ((_INTEGERS < 0) & (_INTEGERS % 4 != 0))).astype(numpy.float32)),
    # array::item<int>: the low half of an int64.
    "item_of_an_int64": Assembled(
        lambda x, out, *_: [mlx.ItemIntNode(x=x, out=V(0)), _full(out, V(0))],
        (numpy.array([2**40 + 7]),), numpy.int32(7)),
    "partition_at_a_value": Assembled(
        lambda x, out, parts, *_: [
            mlx.PartitionNode(x=x, out=parts, kth=integer(V(0)), axis=1),
            mlx.TakeNode(x=parts, out=out, index=_TAKE.from_vid(V(0)), axis=1)],
        (_X, -2), numpy.sort(_X, 1)[:, -2]),
    "branches_in_branches": Assembled(
        lambda x, out, *_: [
            [mlx.IfNode(cond=integer(V(0)), then_chain_idx=1, else_chain_idx=2)],
            [mlx.IfNode(cond=integer(0), then_chain_idx=2, else_chain_idx=3)],
            [mlx.NegNode(x=x, out=out)],
            [mlx.SquareNode(x=x, out=out)]],
        (_X, -1), _X * _X),
    "scan_that_carries": Assembled(
        lambda x, total, out, row, sums, *_: [
            [mlx.ScanNode(originals=[x], sliced=[row], outputs=[sums], carry=[total],
                          body_chain_idx=1, scan_axis=1),
             mlx.IdCopyNode(x=sums, out=out)],
            [mlx.AddNode(a=total, b=row, out=total), mlx.IdCopyNode(x=total, out=sums)]],
        (_STEPS, numpy.zeros(3, numpy.int32)), _STEPS.cumsum(1, numpy.int32)),
    # mlx.random.uniform divides such bits by the largest uint32.
    "random_bits": Assembled(
        lambda largest, out, bits, *_: [
            mlx.RandomBitsNode(out=bits, shape=_literals(3, V(1)), width=4, seed=V(0)),
            mlx.AsTypeNode(x=bits, out=bits, scalar_type=_F32),
            mlx.DivideNode(a=bits, b=largest, out=out)],
        (numpy.float32(2**32 - 1), 7, 5), mx.random.uniform(shape=[3, 5], key=mx.random.key(7))),
    **{
        f"{operation.__name__}_{a}_{b}": _number(operation, a, b, function(a, b))
        for operation, function in (
            (mlx.AddIntNode, int.__add__), (mlx.SubtractIntNode, int.__sub__),
            (mlx.MultiplyIntNode, int.__mul__), (mlx.FloorDivideIntNode, int.__floordiv__),
            (mlx.ModIntNode, int.__mod__))
        for a in (-7, 7) for b in (-3, 3)
    },
}
