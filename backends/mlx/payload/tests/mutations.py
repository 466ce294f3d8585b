"""Faults to plant in the interpreter: for every node type, the mistakes of an implementer.

A fault replaces the builder of one node type. Most change a field of the node before it is built
(an axis off by one, a dropped cast, a swapped operand), the others what the step computes
(a sibling function, a result shifted by one element).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from backends.mlx.execution.kernels import Builder, Step
from backends.mlx.payload.graph import Node, Tid, Vid

# Functions that one line further down would have been right.
SIBLINGS: dict[str, Callable[..., mx.array]] = {
    "AbsNode": mx.negative,
    "AddNode": mx.subtract,
    "AllNode": mx.any,
    "AnyNode": mx.all,
    "ArccosNode": mx.arcsin,
    "ArccoshNode": mx.arcsinh,
    "ArcsinNode": mx.arctan,
    "ArcsinhNode": mx.arctan,
    "ArctanNode": mx.tanh,
    "ArctanhNode": mx.tanh,
    "ArgmaxNode": mx.argmin,
    "ArgminNode": mx.argmax,
    "ArgsortNode": lambda x, axis: mx.argsort(mx.negative(x), axis),
    "Atan2Node": lambda a, b: mx.arctan(mx.divide(a, b)),
    "BitwiseAndNode": mx.bitwise_or,
    "BitwiseInvertNode": mx.negative,
    "BitwiseOrNode": mx.bitwise_xor,
    "BitwiseXorNode": mx.bitwise_or,
    "CeilNode": mx.round,
    "CosNode": mx.sin,
    "CoshNode": mx.sinh,
    "DivideNode": mx.multiply,
    "EqualNode": mx.less_equal,
    "ErfNode": mx.tanh,
    "ExpNode": mx.expm1,
    "Expm1Node": mx.exp,
    "FloorNode": mx.trunc,
    "GreaterEqualNode": mx.greater,
    "GreaterNode": mx.greater_equal,
    "LessEqualNode": mx.less,
    "LessNode": mx.less_equal,
    "Log10Node": mx.log2,
    "Log1pNode": mx.log,
    "Log2Node": mx.log,
    "LogAddExpNode": mx.maximum,
    "LogNode": mx.log1p,
    "LogicalAndNode": mx.logical_or,
    "LogicalNotNode": lambda x: x.astype(mx.bool_),
    "LogicalOrNode": mx.logical_and,
    "MaxNode": mx.min,
    "MaximumNode": mx.minimum,
    "MeanNode": mx.sum,
    "MinNode": mx.max,
    "MinimumNode": mx.maximum,
    "MultiplyNode": mx.add,
    "NegNode": mx.abs,
    "NotEqualNode": mx.greater,
    "PowerNode": mx.multiply,
    "ProdNode": mx.sum,
    "ReciprocalNode": mx.rsqrt,
    "RemainderNode": mx.floor_divide,
    "RsqrtNode": mx.reciprocal,
    "SigmoidNode": mx.tanh,
    "SignNode": mx.ones_like,
    "SinNode": mx.cos,
    "SinhNode": mx.sin,
    "SortNode": lambda x, axis: x,
    "SqrtNode": mx.square,
    "SquareNode": mx.abs,
    "SubtractNode": mx.add,
    "SumNode": mx.mean,
    "TanNode": mx.sin,
    "TanhNode": mx.sigmoid,
    "TruncNode": mx.floor,
}

# Swapping or dropping these changes nothing.
_COMMUTATIVE = frozenset(
    """
    AddNode MultiplyNode MaximumNode MinimumNode EqualNode NotEqualNode LogicalAndNode
    LogicalOrNode BitwiseAndNode BitwiseOrNode BitwiseXorNode LogAddExpNode AddIntNode
    MultiplyIntNode
    """.split()
)
# Every element of the result is the same.
_CONSTANT = frozenset({"FullNode", "FullLikeNode"})
# Not a fault: a hint for speed, or a name; `cond` decides which of two chains runs.
_HARMLESS = frozenset(
    {
        "precise",
        "sorted_indices",
        "sorted_indices_flag",
        "body_chain_idx",
        "then_chain_idx",
        "else_chain_idx",
    }
)


@dataclass(frozen=True)
class Fault:
    """One planted fault.

    Attributes:
        kind: the node type that it is planted in.
        name: what is wrong, for the report.
        plant: makes the faulty builder of the right one.
    """

    kind: str
    name: str
    plant: Callable[[Builder], Builder]


def faults_of(node: Node) -> Iterator[Fault]:
    """Every fault that makes sense for a node of this type and these fields."""
    for field, value in node.fields.items():
        # The order of a set of axes has no effect, unless shifts belong to them.
        is_set = field in ("axes", "dims") and isinstance(value, list) and len(value) > 1
        if field in _HARMLESS or value is None or (is_set and node.kind != "RollNode"):
            continue
        for what, change in _changes(field, value):
            yield Fault(node.kind, f"{field}: {what}", _with_field(field, change))
    if {"a", "b"} <= node.fields.keys() and node.kind not in _COMMUTATIVE:
        yield Fault(node.kind, "a and b swapped", _swapped("a", "b"))
    if node.kind == "WhereNode":
        yield Fault(node.kind, "x and y swapped", _swapped("x", "y"))
    if node.kind in SIBLINGS:
        yield Fault(node.kind, "a sibling's function", _sibling(SIBLINGS[node.kind]))
    if node.kind == "AsTypeNode":
        yield Fault(node.kind, "missing cast", _result(lambda out, first: first))
    if node.kind == "IfNode":
        yield Fault(node.kind, "the other branch", _swapped("then_chain_idx", "else_chain_idx"))
    if isinstance(node.fields.get("out"), Vid):
        yield Fault(node.kind, "value off by one", _one_more)
    if isinstance(node.fields.get("out"), Tid):
        if node.kind not in _CONSTANT:
            yield Fault(node.kind, "result shifted by one element", _result(_shifted))
            yield Fault(node.kind, "wrong broadcast: the first row everywhere", _result(_first_row))
        yield Fault(node.kind, "never written", lambda right: lambda node: lambda t, v: None)


def _changes(field: str, value: Any) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Ways to get one field wrong."""
    if isinstance(value, bool):
        yield "negated", lambda now: not now
    elif isinstance(value, (Tid, Vid)):
        if field in ("bias", "biases", "mask", "weight", "a_min", "a_max", "seed", "freqs"):
            yield "ignored", lambda now: None
    elif isinstance(value, int):
        if field in ("dtype", "scalar_type", "out_dtype"):
            yield "another dtype", lambda now: 3 if now != 3 else 11
        elif field not in ("group_size", "bits", "width", "layer_id"):
            yield "one more", lambda now: now + 1 if _is_number(now) else now
            # Not 1 to 0: MLX divides by strides and groups, and the reader refuses zeros.
            yield "one less", lambda now: (now - 1 if now != 1 else 3) if _is_number(now) else now
    elif isinstance(value, float):
        yield "off by a thousandth and more", lambda now: now * 1.01 + 1e-2
    elif isinstance(value, str) and field in ("mode", "approximate"):
        other = {"constant": "edge", "edge": "constant", "none": "tanh", "tanh": "none"}
        if value in other:
            yield "the other one", lambda now: other.get(now, now)
    elif isinstance(value, list) and len(value) > 1 and len(set(value)) > 1:
        yield "rotated", lambda now: [*now[1:], *now[:1]]
    elif isinstance(value, list) and value and _is_number(value[0]):
        yield "one more", lambda now: [item + 1 if _is_number(item) else item for item in now]


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, (Tid, Vid, bool))


def _with_field(field: str, change: Callable[[Any], Any]) -> Callable[[Builder], Builder]:
    def plant(right: Builder) -> Builder:
        def build(node: Node) -> Step:
            fields = dict(node.fields)
            if fields.get(field) is not None:
                fields[field] = change(fields[field])
            return right(Node(kind=node.kind, **fields))

        return build

    return plant


def _swapped(one: str, other: str) -> Callable[[Builder], Builder]:
    def plant(right: Builder) -> Builder:
        def build(node: Node) -> Step:
            fields = dict(node.fields)
            fields[one], fields[other] = fields[other], fields[one]
            return right(Node(kind=node.kind, **fields))

        return build

    return plant


def _sibling(function: Callable[..., mx.array]) -> Callable[[Builder], Builder]:
    def plant(right: Builder) -> Builder:
        def build(node: Node) -> Step:
            fields = node.fields
            out = fields.pop("out")
            operands = [name for name in ("x", "a", "b") if name in fields]
            options = {name: fields[name] for name in ("axis", "keepdims") if name in fields}
            if fields.get("axes"):
                options["axis"] = fields["axes"]

            def step(t: list[Any], v: list[Any]) -> None:
                t[out] = function(*(t[fields[name]] for name in operands), **options)

            return step

        return build

    return plant


def _result(change: Callable[[mx.array, Any], mx.array]) -> Callable[[Builder], Builder]:
    def plant(right: Builder) -> Builder:
        def build(node: Node) -> Step:
            step = right(node)
            first = node.reads[0] if node.reads else None

            def faulty(t: list[Any], v: list[Any]) -> None:
                before = None if first is None else t[first]
                step(t, v)
                t[node.out] = change(t[node.out], before)

            return faulty

        return build

    return plant


def _one_more(right: Builder) -> Builder:
    def build(node: Node) -> Step:
        step = right(node)

        def faulty(t: list[Any], v: list[Any]) -> None:
            step(t, v)
            v[node.out] += 1

        return faulty

    return build


def _shifted(out: mx.array, first: Any) -> mx.array:
    if out.size < 2:
        return mx.add(out, mx.ones_like(out)) if out.dtype != mx.bool_ else mx.logical_not(out)
    return mx.reshape(mx.roll(mx.reshape(out, [-1]), 1), out.shape)


def _first_row(out: mx.array, first: Any) -> mx.array:
    if out.ndim == 0 or out.shape[0] < 2:
        return _shifted(out, first)
    return mx.broadcast_to(out[:1], out.shape)
