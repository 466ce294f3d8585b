"""Dtypes of results, compared with the sources of the delegate's runtime (see ``single``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mlx.core as mx
import pytest

from backends.mlx.execution.kernels.base import DTYPES
from backends.mlx.execution.kernels.elementwise import BINARY, UNARY
from backends.mlx.execution.kernels.tests.single import OUT, T, run
from backends.mlx.payload.tests.payloads import integer, mlx
from harness import ProgramError

FLOATS = {mx.float16, mx.bfloat16, mx.float32}
TYPES = sorted(DTYPES.values(), key=str)


def at_least_float(dtype: mx.Dtype) -> mx.Dtype:
    """``at_least_float``, ops:63."""
    return dtype if dtype in FLOATS else mx.float32


def same(dtype: mx.Dtype) -> mx.Dtype:
    return dtype


def boolean(_: mx.Dtype) -> mx.Dtype:
    return mx.bool_


def index(_: mx.Dtype) -> mx.Dtype:
    return mx.uint32


def accumulated(dtype: mx.Dtype) -> mx.Dtype:
    """ops:2132, ops:2391: integers of up to 32 bits become 32-bit integers."""
    if dtype in (mx.bool_, mx.int8, mx.int16, mx.int32):
        return mx.int32
    return mx.uint32 if dtype in (mx.uint8, mx.uint32) else dtype


def running(dtype: mx.Dtype) -> mx.Dtype:
    return mx.int32 if dtype == mx.bool_ else dtype


class Rule(NamedTuple):
    """The dtype of a result, by that of the operands.

    Attributes:
        dtype: of the result.
        source: where that is written.
        refused: dtypes that throw.
        fields: of the node besides its operands.
    """

    dtype: Callable[[mx.Dtype], mx.Dtype]
    source: str
    refused: frozenset[mx.Dtype] = frozenset()
    fields: dict[str, Any] = {}


_ALL = {"axes": [], "keepdims": False}
_SPREAD = {**_ALL, "ddof": 1}
_AXIS = {"axis": -1}

UNARY_RULES = {
    "AbsNode": Rule(same, "ops:2868"),
    "NegNode": Rule(same, "ops:2881", frozenset({mx.bool_})),
    "SignNode": Rule(same, "ops:2893"),
    "LogicalNotNode": Rule(boolean, "ops:2897"),
    "ReciprocalNode": Rule(at_least_float, "ops:2937"),
    "FloorNode": Rule(same, "ops:3074"),
    "CeilNode": Rule(same, "ops:3082"),
    "SquareNode": Rule(same, "ops:3100"),
    "ExpNode": Rule(at_least_float, "ops:3105"),
    "Expm1Node": Rule(at_least_float, "ops:3111"),
    "SinNode": Rule(at_least_float, "ops:3118"),
    "CosNode": Rule(at_least_float, "ops:3124"),
    "TanNode": Rule(at_least_float, "ops:3130"),
    "ArcsinNode": Rule(at_least_float, "ops:3136"),
    "ArccosNode": Rule(at_least_float, "ops:3143"),
    "ArctanNode": Rule(at_least_float, "ops:3150"),
    "SinhNode": Rule(at_least_float, "ops:3165"),
    "CoshNode": Rule(at_least_float, "ops:3171"),
    "TanhNode": Rule(at_least_float, "ops:3177"),
    "ArcsinhNode": Rule(at_least_float, "ops:3183"),
    "ArccoshNode": Rule(at_least_float, "ops:3190"),
    "ArctanhNode": Rule(at_least_float, "ops:3197"),
    "LogNode": Rule(at_least_float, "ops:3214"),
    "Log2Node": Rule(at_least_float, "ops:3224"),
    "Log10Node": Rule(at_least_float, "ops:3234"),
    "Log1pNode": Rule(at_least_float, "ops:3244"),
    "SigmoidNode": Rule(at_least_float, "ops:3264"),
    "ErfNode": Rule(at_least_float, "ops:3271"),
    "SqrtNode": Rule(at_least_float, "ops:3909"),
    "RsqrtNode": Rule(at_least_float, "ops:3918"),
    "BitwiseInvertNode": Rule(same, "ops:6447", frozenset(FLOATS)),
    # Integers stay as they are. A boolean selects between ceil and floor.
    "TruncNode": Rule(same, "ops:3089"),
}
COMPOSED_RULES = {
    # x * (1 + erf(...)): integers meet float32 in the sum.
    "GeluNode none": Rule(at_least_float, "Interpreter:117", fields={"approximate": "none"}),
    "GeluNode tanh": Rule(at_least_float, "Interpreter:101", fields={"approximate": "tanh"}),
    "GeluNode word": Rule(at_least_float, "Interpreter:574", fields={"approximate": "word"}),
    "SiluNode": Rule(at_least_float, "Interpreter:618"),
    "RoundNode": Rule(same, "ops:3294", fields={"decimals": 0}),
    "RoundNode decimals": Rule(same, "ops:3306", fields={"decimals": 2}),
    "SumNode": Rule(accumulated, "ops:2132", fields=_ALL),
    "ProdNode": Rule(accumulated, "ops:2391", fields=_ALL),
    "MeanNode": Rule(at_least_float, "ops:2207", fields=_ALL),
    "VarNode": Rule(at_least_float, "ops:2317", fields=_SPREAD),
    "StdNode": Rule(at_least_float, "ops:2317", fields=_SPREAD),
    "MedianNode": Rule(at_least_float, "ops:2246", fields=_ALL),
    "MaxNode": Rule(same, "ops:2426", fields=_ALL),
    "MinNode": Rule(same, "ops:2480", fields=_ALL),
    "AllNode": Rule(boolean, "ops:2054", fields=_ALL),
    "AnyNode": Rule(boolean, "ops:2088", fields=_ALL),
    "ArgmaxNode": Rule(index, "ops:2546", fields={**_AXIS, "keepdims": False}),
    "ArgminNode": Rule(index, "ops:2508", fields={**_AXIS, "keepdims": False}),
    "LogSumExpNode": Rule(at_least_float, "ops:2838", fields={"axes": [0], "keepdims": False}),
    "SoftmaxNode": Rule(at_least_float, "ops:3953", fields={**_AXIS, "precise": False}),
    "CumsumNode": Rule(running, "ops:4006", fields={**_AXIS, "reverse": False, "inclusive": True}),
    "SortNode": Rule(same, "ops:2654", fields=_AXIS),
    "ArgsortNode": Rule(index, "ops:2675", fields=_AXIS),
    "PartitionNode": Rule(same, "ops:2702", fields={**_AXIS, "kth": integer(0)}),
    "ArgPartitionNode": Rule(index, "ops:2743", fields={**_AXIS, "kth": integer(0)}),
}
BINARY_RULES = {
    **dict.fromkeys(("AddNode", "SubtractNode", "MultiplyNode"), Rule(same, "ops:2942")),
    **dict.fromkeys(("MaximumNode", "MinimumNode"), Rule(same, "ops:3050")),
    "DivideNode": Rule(at_least_float, "ops:2988"),
    "RemainderNode": Rule(same, "ops:3020"),
    "PowerNode": Rule(same, "ops:3981"),
    "Atan2Node": Rule(at_least_float, "ops:3158"),
    "LogAddExpNode": Rule(at_least_float, "ops:3253"),
    **dict.fromkeys(
        ("EqualNode", "NotEqualNode", "LessNode", "LessEqualNode", "GreaterNode"),
        Rule(boolean, "ops:1830"),
    ),
    "GreaterEqualNode": Rule(boolean, "ops:1830"),
    **dict.fromkeys(("LogicalAndNode", "LogicalOrNode"), Rule(boolean, "ops:2905")),
    **dict.fromkeys(
        ("BitwiseAndNode", "BitwiseOrNode", "BitwiseXorNode"),
        Rule(same, "ops:6398", frozenset(FLOATS)),
    ),
    # The quotient of integers is mlx::divide's.
    "FloorDivideNode": Rule(at_least_float, "Interpreter:1664"),
}


def assert_dtype(rule: Rule, dtype: mx.Dtype, node: Any, *operands: mx.array) -> None:
    if dtype in rule.refused:
        with pytest.raises(ProgramError):
            run([node], *operands)
    else:
        assert run([node], *operands).dtype == rule.dtype(dtype), rule.source


@pytest.mark.one_of(5)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", [*UNARY_RULES, *COMPOSED_RULES])
def test_the_dtype_of_a_function_of_one_tensor(name: str, dtype: mx.Dtype) -> None:
    rule = (UNARY_RULES | COMPOSED_RULES)[name]
    node = getattr(mlx, name.split()[0])(x=T(0), out=OUT, **rule.fields)
    assert_dtype(rule, dtype, node, mx.array([1, 0, 1]).astype(dtype))


@pytest.mark.one_of(5)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", BINARY_RULES)
def test_the_dtype_of_a_function_of_two_tensors(name: str, dtype: mx.Dtype) -> None:
    node = getattr(mlx, name)(a=T(0), b=T(1), out=OUT)
    operand = mx.array([1, 1, 1]).astype(dtype)
    assert_dtype(BINARY_RULES[name], dtype, node, operand, operand)


def test_every_elementwise_function_has_a_rule() -> None:
    assert UNARY_RULES.keys() == UNARY.keys()
    assert BINARY_RULES.keys() == {*BINARY, "FloorDivideNode", "RemainderNode"}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_erf_of_integers_is_not_rounded_to_an_integer(dtype: mx.Dtype) -> None:
    found = run([mlx.ErfNode(x=T(0), out=OUT)], mx.array([1]).astype(dtype))
    assert abs(found.astype(mx.float32).item() - 0.8427) < 4e-3
