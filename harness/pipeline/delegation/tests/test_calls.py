"""A record says with what each operator was called, and whether it was delegated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from harness import Case, Cell, Target, run_cell
from harness.pipeline.delegation.calls import describe_call
from harness.record.program_data import OperatorCall

X = torch.randn(2, 3, 4, 4)


class Function(torch.nn.Module):
    """A module of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def list_calls(
    function: Callable[..., Any] | torch.nn.Module,
    *inputs: torch.Tensor,
    target: str = "xnnpack:fp32",
    **options: Any,
) -> list[OperatorCall]:
    module = function if isinstance(function, torch.nn.Module) else Function(function)
    cell = run_cell(Case.from_module("m", module, inputs, **options), Target.parse(target), seed=0)
    assert cell.error is None
    assert Cell.from_json(cell.to_json()).delegation == cell.delegation
    return cell.delegation.calls


def test_delegated_and_fallback_calls_are_listed_once_each() -> None:
    calls = list_calls(lambda x: torch.erf(torch.abs(-torch.abs(x))), X)
    assert calls == [
        OperatorCall(op="aten.abs.default", delegated=True, dtype="float32", rank=4),
        OperatorCall(op="aten.erf.default", dtype="float32", rank=4),
        OperatorCall(op="aten.neg.default", delegated=True, dtype="float32", rank=4),
    ]


@pytest.mark.parametrize(
    ("x", "layout"),
    [
        (X, "contiguous"),
        (X.to(memory_format=torch.channels_last), "channels_last"),
        (X[:, :1], "contiguous"),  # the stride of a size 1 says nothing
        (X.permute(1, 0, 2, 3), "other"),
        (X[..., ::2], "other"),
        (torch.randn(1, 3, 4, 4, 4).to(memory_format=torch.channels_last_3d), "channels_last"),
        (torch.tensor(1.0), "contiguous"),
    ],
)  # fmt: skip
def test_the_layout_is_that_of_the_strides(x: torch.Tensor, layout: str) -> None:
    assert make_call(x.contiguous() if x.shape[1:2] == (1,) else x).layout == layout


def make_call(*inputs: Any, target: Any = torch.ops.aten.add.Tensor) -> OperatorCall:
    graph = torch.fx.Graph()
    nodes = [graph.placeholder(f"x{number}") for number in range(len(inputs))]
    for node, value in zip(nodes, inputs, strict=True):
        node.meta["val"] = value
    return describe_call(graph.call_function(target, tuple(nodes)), "op", delegated=False)


def test_the_first_floating_input_counts() -> None:
    call = make_call(torch.tensor([1]), torch.ones(2, 2, dtype=torch.float16))
    assert (call.dtype, call.rank) == ("float16", 2)
    call = make_call(torch.tensor([True]), torch.ones(2, 2, dtype=torch.int32))
    assert (call.dtype, call.rank) == ("bool", 1)
    assert make_call() == OperatorCall(op="op")
    assert make_call([torch.ones(3, 3), torch.ones(3, 3)]).rank == 2, "a list of tensors"


def test_dynamic_sizes_are_compared_without_guards() -> None:
    sizes = (({2: torch.export.Dim("h", min=2, max=9)},),)
    x = X.to(memory_format=torch.channels_last)
    (call,) = list_calls(torch.abs, x, dynamic_shapes=sizes)
    assert call.dynamic
    assert call.layout == "channels_last"
    (call,) = list_calls(torch.abs, X, dynamic_shapes=sizes)
    assert call.layout == "contiguous"


def test_the_name_of_an_input_makes_no_quantized_operand() -> None:
    graph = torch.fx.Graph()
    node = graph.call_function(torch.ops.aten.abs.default, (graph.placeholder("dequantize"),))
    assert not describe_call(node, "op", delegated=False).quantized


def test_quantized_operands_are_seen() -> None:
    calls = list_calls(torch.nn.Linear(4, 4), torch.randn(2, 4), target="xnnpack:int8")
    found = {call.op: call for call in calls}
    assert found["aten.linear.default"].quantized
    assert found["aten.linear.default"].delegated
    assert not found["quantized_decomposed.quantize_per_tensor.default"].quantized


def test_fields_without_content_take_no_room() -> None:
    calls = list_calls(torch.erf, torch.randn(2))
    cell = Cell.from_json('{"case": "old", "target": "xnnpack:fp32", "status": "passed"}')
    assert cell.delegation.calls == []
    with_calls = run_cell(Case.from_module("m", Function(torch.erf), (torch.randn(2),)),
                          Target.parse("xnnpack:fp32"), seed=0)  # fmt: skip
    text = '"calls":[{"op":"aten.erf.default","dtype":"float32","rank":1}]'
    assert text in with_calls.to_json()
    assert with_calls.delegation.calls == calls
