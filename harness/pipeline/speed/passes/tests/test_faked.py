"""What operators make of fake tensors is what upstream would have made again."""

from __future__ import annotations

import gc
import importlib
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch.backends.arm.tosa import TosaSpecification
from executorch.backends.arm.tosa.specification import TosaLoweringContext
from executorch.exir.dialects._ops import ops as exir_ops
from torch._subclasses import FakeTensorMode
from torch.fx import Graph, GraphModule, Interpreter
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from harness.pipeline.speed.passes import fake_results

aten = torch.ops.aten


@pytest.fixture
def dispatched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The operators that fake modes are asked about."""
    asked: list[Any] = []
    upstream = fake_results._dispatched

    def noted(mode: Any, func: Any, *others: Any) -> Any:
        asked.append(func)
        return upstream(mode, func, *others)

    monkeypatch.setattr(fake_results, "_dispatched", noted)
    monkeypatch.setattr(fake_results, "_results", {})
    return asked


def _asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The operators that upstream is asked to call from now on."""
    asked: list[Any] = []
    upstream = fake_results._upstream

    def noted(overload: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append(overload)
        return upstream(overload, *args, **kwargs)

    monkeypatch.setattr(fake_results, "_upstream", noted)
    monkeypatch.setattr(fake_results, "_results", {})
    return asked


def _described(result: Any) -> Any:
    made = result if isinstance(result, tuple | list) else [result]
    keys, attributes = torch._C._dispatch_keys, vars
    return type(result), [
        (type(one), one.shape, one.stride(), one.dtype, str(keys(one)), attributes(one))
        for one in made
    ]


ADD, SPLIT = exir_ops.edge.aten.add.Tensor, exir_ops.edge.aten.split_with_sizes_copy.default
QUANTIZE = exir_ops.edge.quantized_decomposed.quantize_per_tensor.default


@pytest.mark.parametrize(
    ("op", "more"),
    [(ADD, (1,)), (QUANTIZE, (0.5, 3, -128, 127, torch.int8)), (SPLIT, ([1, 3], 1))],
)
def test_what_fake_tensors_become_is_asked_once(
    op: Any, more: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = _asked(monkeypatch)
    mode = FakeTensorMode()
    with mode:
        first = op(torch.empty(2, 4), *more)
        again = op(torch.empty(2, 4), *more)
        transposed = op(torch.empty(4, 2).t().contiguous(), *more)
        assert len(asked) == 1
        strided = op(torch.empty_strided((2, 4), (1, 2)), *more)
        assert len(asked) == 2
    assert _described(again) == _described(first) == _described(transposed)
    assert first is not again
    with mode:
        assert _described(strided) == _described(op._op(torch.empty_strided((2, 4), (1, 2)), *more))
    with FakeTensorMode() as other:
        elsewhere = op(torch.empty(2, 4), *more)
    made = elsewhere if isinstance(elsewhere, tuple | list) else [elsewhere]
    assert len(asked) == 2
    assert all(one.fake_mode is other for one in made)
    with FakeTensorMode(shape_env=ShapeEnv(specialize_zero_one=False)):
        op(torch.empty(2, 4), *more)
    assert len(asked) == 3, "a mode of other settings may make something else"


def test_a_number_of_another_type_makes_another_result(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _asked(monkeypatch)
    with FakeTensorMode():
        made = [ADD(torch.empty(2, dtype=torch.int32), number) for number in (1, 1.0, True)]
    assert [one.dtype for one in made] == [torch.int32, torch.float32, torch.int32]
    assert len(asked) == 3


@pytest.mark.parametrize(
    "call",
    [
        lambda: ADD(torch.empty(2, requires_grad=True), 1),
        lambda: ADD(torch.empty(4)[2:], 1),
        lambda: exir_ops.edge.aten.t.default(torch.empty(2, 3)),
        lambda: exir_ops.edge.aten.nonzero.default(torch.empty(2)),
    ],
    ids=["has a gradient", "has an offset", "shares memory", "depends on data"],
)
def test_calls_that_have_more_to_them_are_left_to_upstream(
    call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = _asked(monkeypatch)
    with FakeTensorMode(shape_env=ShapeEnv()):
        call()
        call()
    assert len(asked) == 2


def test_calls_are_traced_though_they_were_made_before() -> None:
    with FakeTensorMode() as mode:
        ADD(torch.empty(2), 1)
        traced = make_fx(lambda x: ADD(x, 1))(mode.from_tensor(torch.empty(2)))
    assert "add" in traced.code


def test_what_an_operator_refuses_on_one_variant_of_tosa_another_takes() -> None:
    plain, extended = map(TosaSpecification.create_from_string, ("TOSA-1.0+INT", "TOSA-1.0+INT+FP"))
    importlib.import_module("executorch.backends.arm.tosa.dialect.ops")  # registers them
    add = exir_ops.backend.tosa.ADD.default
    with FakeTensorMode():
        operands = torch.empty(2), torch.empty(2)
        with TosaLoweringContext(extended):
            assert add(*operands).dtype is torch.float32
        with TosaLoweringContext(plain), pytest.raises(ValueError, match="TOSA"):
            add(*operands)


def _walk(op: Any, *args: Any) -> Any:
    """A graph of one operator, walked."""
    graph = Graph()
    graph.output(graph.call_function(op, args))
    return Interpreter(GraphModule({}, graph)).run()


@pytest.mark.parametrize("call", [lambda op, *args: op(*args), _walk], ids=["called", "walked"])
def test_what_was_made_in_one_mode_is_not_asked_for_in_another(
    call: Callable[..., Any], dispatched: list[Any]
) -> None:
    for _ in range(3):
        with FakeTensorMode() as mode:
            made = call(aten.full.default, [2, 3], 1.5)
        assert made.fake_mode is mode
        assert made.shape == (2, 3)
    assert dispatched.count(aten.full.default) == 1


def test_a_trace_does_not_ask_for_what_an_earlier_one_made(dispatched: list[Any]) -> None:
    mode = FakeTensorMode()
    given = mode.from_tensor(torch.empty(2, 3))
    with mode:
        first, again = (make_fx(lambda x: (x * 2).sum(0))(given) for _ in range(2))
    assert first.code == again.code
    assert dispatched.count(aten.mul.Tensor) == dispatched.count(aten.sum.dim_IntList) == 1


CALLS: dict[str, Callable[[], Any]] = {
    "channels last": lambda: aten.convolution.default(
        torch.empty(2, 3, 8, 8, memory_format=torch.channels_last),
        torch.empty(4, 3, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1,
    ),
    "several": lambda: aten.topk.default(torch.empty(2, 6), 3),
    "a list": lambda: aten.split_with_sizes_copy.default(torch.empty(2, 4), [1, 3], 1),
    "a scalar": lambda: aten.sum.default(torch.empty(2, dtype=torch.int8)),
    "another device": lambda: aten.empty.memory_format([2, 0], device="cuda:1", pin_memory=False),
    "permuted": lambda: aten.empty_permuted.default([2, 3, 4], [2, 0, 1]),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_is_made_again_is_what_the_mode_makes(
    call: Callable[[], Any], dispatched: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeTensorMode():
        call()
        asked = len(dispatched)
        kept = call()
        assert len(dispatched) == asked
        monkeypatch.setattr(fake_results, "_results", {})
        assert _described(kept) == _described(call())
        assert len(dispatched) > asked


def test_what_surrounds_a_call_decides_about_it() -> None:
    with FakeTensorMode():
        counts = torch.empty(2, dtype=torch.int32)
        assert aten.div.Tensor(counts, counts).dtype is torch.float32
        torch.set_default_dtype(torch.float64)
        try:
            assert aten.div.Tensor(counts, counts).dtype is torch.float64
            assert _walk_in(aten.div.Tensor, counts).dtype is torch.float64
        finally:
            torch.set_default_dtype(torch.float32)
        square = torch.empty(2, 2)
        assert _walk_in(aten.mm.default, square).dtype is torch.float32
        with torch.autocast("cpu", torch.bfloat16):
            assert _walk_in(aten.mm.default, square).dtype is torch.bfloat16
        with torch.inference_mode():
            assert aten.full.default([2], 1.0).is_inference()
        assert not aten.full.default([2], 1.0).is_inference()


def _walk_in(op: Any, given: torch.Tensor) -> Any:
    graph = Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(op, (x, x)))
    return Interpreter(GraphModule({}, graph)).run(given)


def test_a_constant_and_a_write_are_left_to_the_mode(dispatched: list[Any]) -> None:
    with FakeTensorMode():
        for _ in range(2):
            constant = torch.tensor([3])
            assert constant.constant is not None
            assert (constant + 1).item() == 4
            torch.empty(2).add_(1)
    assert dispatched.count(aten.add_.Tensor) == 2


def test_a_mode_ends_with_its_tensors() -> None:
    mode = FakeTensorMode()
    with mode:
        made = [aten.full.default([5, 4], 1.5) for _ in range(3)]
    assert all(one.fake_mode is mode for one in made)
    ended = weakref.ref(mode)
    del made, mode
    gc.collect()
    assert ended() is None


def test_no_more_than_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_results, "_results", {})
    monkeypatch.setattr(fake_results, "_MOST", 3)
    with FakeTensorMode():
        for size in range(10):
            assert aten.full.default([size], 1.0).shape == (size,)
            assert len(fake_results._results) <= 3
