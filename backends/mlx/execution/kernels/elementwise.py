"""Element-wise kernels: unary and binary functions, comparison, logic, casts, selection."""

from __future__ import annotations

import functools
from collections.abc import Callable

import mlx.core as mx

from backends.mlx.execution.kernels.base import Builder, Step, to_mlx_dtype
from backends.mlx.execution.kernels.device import erf
from backends.mlx.payload.graph import Node

UNARY: dict[str, Callable[..., mx.array]] = {
    "AbsNode": mx.abs,
    "ArccosNode": mx.arccos,
    "ArccoshNode": mx.arccosh,
    "ArcsinNode": mx.arcsin,
    "ArcsinhNode": mx.arcsinh,
    "ArctanNode": mx.arctan,
    "ArctanhNode": mx.arctanh,
    "BitwiseInvertNode": mx.bitwise_invert,
    "CeilNode": mx.ceil,
    "CosNode": mx.cos,
    "CoshNode": mx.cosh,
    "ErfNode": erf,
    "ExpNode": mx.exp,
    "Expm1Node": mx.expm1,
    "FloorNode": mx.floor,
    "Log10Node": mx.log10,
    "Log1pNode": mx.log1p,
    "Log2Node": mx.log2,
    "LogNode": mx.log,
    "LogicalNotNode": mx.logical_not,
    "NegNode": mx.negative,
    "ReciprocalNode": mx.reciprocal,
    "RsqrtNode": mx.rsqrt,
    "SigmoidNode": mx.sigmoid,
    "SignNode": mx.sign,
    "SinNode": mx.sin,
    "SinhNode": mx.sinh,
    "SqrtNode": mx.sqrt,
    "SquareNode": mx.square,
    "TanNode": mx.tan,
    "TanhNode": mx.tanh,
    "TruncNode": mx.trunc,
}

BINARY: dict[str, Callable[..., mx.array]] = {
    "AddNode": mx.add,
    "Atan2Node": mx.arctan2,
    "BitwiseAndNode": mx.bitwise_and,
    "BitwiseOrNode": mx.bitwise_or,
    "BitwiseXorNode": mx.bitwise_xor,
    "DivideNode": mx.divide,
    "EqualNode": mx.equal,
    "GreaterEqualNode": mx.greater_equal,
    "GreaterNode": mx.greater,
    "LessEqualNode": mx.less_equal,
    "LessNode": mx.less,
    "LogAddExpNode": mx.logaddexp,
    "LogicalAndNode": mx.logical_and,
    "LogicalOrNode": mx.logical_or,
    "MaximumNode": mx.maximum,
    "MinimumNode": mx.minimum,
    "MultiplyNode": mx.multiply,
    "NotEqualNode": mx.not_equal,
    "PowerNode": mx.power,
    "SubtractNode": mx.subtract,
}


def unary(function: Callable[..., mx.array], node: Node) -> Step:
    """Build ``out = function(x)``."""
    x, out = node.x, node.out

    def step(t: list[mx.array], v: list[object]) -> None:
        t[out] = function(t[x])

    return step


def binary(function: Callable[..., mx.array], node: Node) -> Step:
    """Build ``out = function(a, b)``, broadcast and promoted by MLX's rules."""
    a, b, out = node.a, node.b, node.out

    def step(t: list[mx.array], v: list[object]) -> None:
        t[out] = function(t[a], t[b])

    return step


def copy(node: Node) -> Step:
    """Assign the same array to another slot: MLX arrays are immutable."""
    return unary(lambda x: x, node)


def cast(node: Node) -> Step:
    """Cast to another dtype."""
    dtype = to_mlx_dtype(node.scalar_type)
    return unary(lambda x: x.astype(dtype), node)


def round_decimals(node: Node) -> Step:
    """Round to a number of decimals, halves to even."""
    decimals = node.decimals
    return unary(lambda x: mx.round(x, decimals), node)


def silu(node: Node) -> Step:
    """Compute ``x · sigmoid(x)``."""
    return unary(lambda x: mx.multiply(x, mx.sigmoid(x)), node)


@functools.cache
def _scalar(value: float, dtype: mx.Dtype) -> mx.array:
    return mx.array(value, dtype)


def _gelu_erf(x: mx.array) -> mx.array:
    # gelu_none_impl in MLXInterpreter.h: constants in the dtype of x, so constants of integers
    # are truncated, while erf and tanh promote integers to float32.
    grown = mx.add(_scalar(1.0, x.dtype), erf(mx.multiply(_scalar(0.7071067812, x.dtype), x)))
    return mx.multiply(_scalar(0.5, x.dtype), mx.multiply(x, grown))


def _gelu_tanh(x: mx.array) -> mx.array:
    # gelu_tanh_impl, with the same constants.
    cube = mx.multiply(x, mx.multiply(x, x))
    inner = mx.add(x, mx.multiply(_scalar(0.044715, x.dtype), cube))
    inner = mx.multiply(_scalar(0.7978845608, x.dtype), inner)
    grown = mx.add(_scalar(1.0, x.dtype), mx.tanh(inner))
    return mx.multiply(_scalar(0.5, x.dtype), mx.multiply(x, grown))


def gelu(node: Node) -> Step:
    """Compute gelu by tanh if ``approximate`` is "tanh", by erf for any other (``exec_gelu``)."""
    return unary(_gelu_tanh if node.approximate == "tanh" else _gelu_erf, node)


def _remainder(a: mx.array, b: mx.array) -> mx.array:
    if mx.issubdtype(b.dtype, mx.signedinteger) and mx.issubdtype(a.dtype, mx.integer):
        # The remainder by -1 is that by 1, 0; an x86 processor traps on the lowest integer by -1.
        one = _scalar(1, b.dtype)
        b = mx.where(mx.equal(b, mx.negative(one)), one, b)
    return mx.remainder(a, b)


def remainder(node: Node) -> Step:
    """Compute the remainder with the sign of the divisor, from a division rounded down."""
    return binary(_remainder, node)


def _floor_divide(a: mx.array, b: mx.array) -> mx.array:
    if mx.issubdtype(a.dtype, mx.inexact):
        return mx.floor_divide(a, b)
    # exec_floor_divide: the quotient of integers is mx::divide's unrounded float32; a later cast
    # makes it an integer.
    zero = _scalar(0, a.dtype)
    has_rest = mx.not_equal(_remainder(a, b), zero)
    signs_differ = mx.not_equal(mx.less(a, zero), mx.less(b, zero))
    adjust = mx.logical_and(has_rest, signs_differ).astype(a.dtype)
    return mx.subtract(mx.divide(a, b), adjust)


def floor_divide(node: Node) -> Step:
    """Divide and round down; for integers with the runtime's own adjustment."""
    return binary(_floor_divide, node)


def where(node: Node) -> Step:
    """Select ``x`` where the condition is true, else ``y``."""
    condition, x, y, out = node.condition, node.x, node.y, node.out

    def step(t: list[mx.array], v: list[object]) -> None:
        t[out] = mx.where(t[condition], t[x], t[y])

    return step


def clip(node: Node) -> Step:
    """Clip between two bounds, each an array or absent."""
    x, low, high, out = node.x, node.a_min, node.a_max, node.out

    def step(t: list[mx.array], v: list[object]) -> None:
        t[out] = mx.clip(t[x], None if low is None else t[low], None if high is None else t[high])

    return step


BUILDERS: dict[str, Builder] = {
    **{name: functools.partial(unary, function) for name, function in UNARY.items()},
    **{name: functools.partial(binary, function) for name, function in BINARY.items()},
    "AsTypeNode": cast,
    "ClipNode": clip,
    "FloorDivideNode": floor_divide,
    "GeluNode": gelu,
    "IdCopyNode": copy,
    "RemainderNode": remainder,
    "RoundNode": round_decimals,
    "SiluNode": silu,
    "WhereNode": where,
}
