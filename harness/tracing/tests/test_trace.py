"""The first diverging node is the node with the planted fault."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
import torch

from backends.mlx.execution.kernels import BUILDERS
from harness import Case, Found, Tester, UsageError, run_cell, trace, with_divergence
from harness.errors import ConflictingOptions
from harness.record.cell import Cell
from harness.tracing.tests.planting import (
    make_faulty_recipe,
    swap_operator,
    swap_operator_after,
    swap_operator_in_large,
)

TANH_IS_ERF = swap_operator("aten.tanh.default", "aten.erf.default")


class Chain(torch.nn.Module):
    """A chain of nodes with a residual: the fault is in the middle of it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.second = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.sigmoid(self.first(x))
        hidden = torch.tanh(hidden) + x
        return self.second(hidden).softmax(-1)


def found(module: torch.nn.Module, target: str, *inputs: torch.Tensor, **options: Any) -> Found:
    torch.manual_seed(0)
    return trace(module, target, inputs or (torch.randn(4, 8),), **options)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("target", ["portable:fp32", "xnnpack:fp32", "tosa:fp", "mlx:fp32"])
def test_a_planted_fault_is_traced_to_its_node(target: str) -> None:
    seen = found(Chain(), target, recipe=make_faulty_recipe(target, TANH_IS_ERF), taps=3)
    assert seen.problem is not None
    first = seen.first
    assert first is not None
    assert (first.node, first.op, first.born) == ("tanh", "aten.tanh.default", True)
    assert "hidden = torch.tanh(hidden) + x" in first.source
    assert re.search(r"harness/tracing/tests/test_trace\.py:\d+", first.source)
    assert first.shapes == "float32[4, 8] <- float32[4, 8]"
    assert first.bound_used > 1
    assert first.error > first.bound
    assert first.exceeding > 0
    assert first.expected is not None
    assert first.actual is not None
    # The oracle's maximum is at tanh, the target's at erf.
    assert first.expected.high < first.actual.high
    assert seen.nodes[0].problem is not None
    assert {node.node for node in seen.nodes if node.problem is None} <= {"linear", "sigmoid"}
    assert seen.rounds >= 2  # three of seven nodes a round


def test_an_instruction_that_errs_is_traced_to_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is correct; the interpreter is wrong."""

    def build(node: Any) -> Any:
        def step(t: list[Any], v: list[Any]) -> None:
            t[node.out] = t[node.x] / 2

        return step

    monkeypatch.setitem(BUILDERS, "SoftmaxNode", build)
    first = found(Chain(), "mlx:fp32").first
    assert first is not None
    assert (first.node, first.born) == ("softmax", True)


class Product(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3.0


def test_error_and_bound_are_of_the_element_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The element with the largest error is within its bound."""
    build = BUILDERS["MultiplyNode"]

    def wrong(node: Any) -> Any:
        step = build(node)

        def run(t: list[Any], v: list[Any]) -> None:
            step(t, v)
            t[node.out] = t[node.out] + type(t[node.out])([1e-4, 1e-8])

        return run

    monkeypatch.setitem(BUILDERS, "MultiplyNode", wrong)
    seen = found(Product(), "mlx:fp32", torch.tensor([1000.1, 0.0011]))
    first = seen.first
    assert first is not None
    assert first.exceeding == 1
    assert first.error == pytest.approx(1e-8, rel=0.1)
    assert first.error == pytest.approx(first.bound_used * first.bound, rel=1e-12)
    assert seen.divergence is not None
    assert seen.divergence.error == first.error
    assert f"error {first.error:.3g}, {first.bound_used:.3g} times its bound" in str(
        seen.divergence
    )
    assert f"error {first.error:.3g}, bound {first.bound:.3g})" in str(seen.problem)


def test_a_green_model_ends_after_one_run() -> None:
    seen = found(Chain(), "xnnpack:fp32")
    assert (seen.problem, seen.first, seen.programs, seen.nodes) == (None, None, 1, ())


def test_all_nodes_of_a_green_model() -> None:
    seen = found(Chain(), "portable:fp32", all_nodes=True, taps=3)
    assert seen.problem is None
    assert seen.first is None
    assert len(seen.nodes) == seen.candidates == 6
    assert seen.worst is seen.nodes[0]
    assert 0 < seen.nodes[0].bound_used <= 1
    assert [node.bound_used for node in seen.nodes] == sorted(
        (node.bound_used for node in seen.nodes), reverse=True
    )


class Fused(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        scaled = torch.sigmoid(x * y)
        return torch.tanh(torch.relu(scaled - y) * x)


def test_a_defect_of_a_fused_kernel_is_found_by_cutting_the_graph() -> None:
    """Additional outputs prevent the fusion of the two nodes."""
    edit = swap_operator_after("aten.relu.default", "aten.neg.default", "aten.sub.Tensor")
    recipe = make_faulty_recipe("portable:fp32", edit)
    seen = found(Fused(), "portable:fp32", torch.randn(4, 8), torch.randn(4, 8), recipe=recipe)
    assert seen.first is not None
    assert seen.first.op == "aten.relu.default"
    assert seen.first.born is True
    assert set(seen.first.together) == {"sub", "relu"}
    assert "several nodes" in seen.note


class Summed(torch.nn.Module):
    """The error of tanh is within the bound of a sum with a large number, and exceeds the bound of
    a mean."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        large = y * 2000
        return (torch.tanh(x) + y + large - large - y).mean(-1)


def test_a_right_value_hides_a_wrong_one() -> None:
    inputs = torch.full((2, 256), 4.8), torch.rand(2, 256) + 1
    recipe = make_faulty_recipe("portable:fp32", TANH_IS_ERF)
    seen = found(Summed(), "portable:fp32", *inputs, recipe=recipe, taps=1)
    assert seen.first is not None
    assert (seen.first.node, seen.first.born) == ("tanh", True)
    assert "add_1" in {node.node for node in seen.nodes if node.problem is None}


def test_an_error_that_no_part_shows_alone_is_inherited() -> None:
    class Deep(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(6):
                x = torch.neg(torch.sigmoid(x))
            return torch.tanh(x) * x

    edit = swap_operator_in_large("aten.tanh.default", "aten.erf.default", 16)
    seen = found(Deep(), "portable:fp32", recipe=make_faulty_recipe("portable:fp32", edit))
    assert seen.first is not None
    assert (seen.first.node, seen.first.born) == ("tanh", False)
    assert seen.path[-1].startswith("tanh ")
    assert seen.path[-2].startswith("neg_5 ")


class Several(torch.nn.Module):
    """Tuples, indices, masks, views and writes between them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(4, 8))

    def forward(self, x: torch.Tensor, table: dict[str, torch.Tensor]) -> dict[str, Any]:
        left, right = (x + 1).split(4, -1)
        values, indices = left.max(-1)
        self.kept[:2].copy_(x[:2])
        view = self.kept.view(8, 4)
        view.mul_(2)
        mask = self.kept > right.sum()
        inner = torch.tanh(self.kept)
        inner.add_(table["y"])
        return {"a": (values, indices), "b": [inner, mask], "c": 3, "d": None}


def test_writes_views_and_tuples() -> None:
    torch.manual_seed(0)
    inputs = (torch.randn(4, 8), {"y": torch.randn(8)})
    case = Case("several", lambda: (Several(), inputs), calls=lambda: [(inputs[0] + 1, inputs[1])])
    recipe = make_faulty_recipe("portable:fp32", TANH_IS_ERF)
    seen = trace(case, "portable:fp32", recipe=recipe, all_nodes=True)
    assert seen.first is not None
    assert (seen.first.node, seen.first.born) == ("tanh", True)
    looked_at = {node.node for node in seen.nodes}
    assert {"add", "split", "max_1", "copy_", "mul_", "gt", "tanh", "add_"} <= looked_at


class Cache(torch.nn.Module):
    """State that is written wrongly shows only in the next call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(2, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        last = self.kept * 2
        self.kept.copy_(torch.tanh(x))
        return last + x


def test_state_that_is_written_wrongly() -> None:
    case = Case("cache", lambda: (Cache(), (torch.randn(2, 4),)))
    seen = trace(case, "portable:fp32", recipe=make_faulty_recipe("portable:fp32", TANH_IS_ERF))
    assert seen.problem is not None
    assert seen.problem.startswith("call 1")
    assert seen.first is not None
    assert (seen.first.node, seen.first.call, seen.first.born) == ("tanh", 0, True)


class Branches(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.tanh, torch.sigmoid, (x,)) * 2


def test_control_flow_is_one_node() -> None:
    x = torch.full((4, 8), 0.5)
    seen = found(
        Branches(), "portable:fp32", x, recipe=make_faulty_recipe("portable:fp32", TANH_IS_ERF)
    )
    assert seen.first is not None
    assert (seen.first.op, seen.first.born) == ("cond", True)


class Products(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.linear(x))
        return self.linear(hidden * y) + x


@pytest.mark.parametrize("target", ["xnnpack:int8"])
def test_quantized_values_are_looked_at_decoded(target: str) -> None:
    recipe = make_faulty_recipe(target, swap_operator("aten.mul.Tensor", "aten.sub.Tensor"))
    inputs = (torch.randn(4, 8), torch.randn(4, 8))
    seen = found(Products(), target, *inputs, recipe=recipe, all_nodes=True)
    assert seen.first is not None
    assert (seen.first.node, seen.first.op, seen.first.born) == ("mul", "aten.mul.Tensor", True)
    named = {node.op for node in seen.nodes}
    # The kernel stores no value before its activation.
    assert "aten.linear.default + aten.relu.default" in named
    assert "aten.relu.default" not in named


def test_a_cell_that_fails_has_nothing_to_compare() -> None:
    class Unknown(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("no forward")

    seen = found(Unknown(), "portable:fp32")
    assert (seen.first, seen.stage) == (None, "build")
    assert "no forward" in str(seen.problem)


def test_misuse_is_one_line() -> None:
    with pytest.raises(UsageError, match="pass them as a tuple"):
        trace(Chain(), "portable:fp32")
    case = Case.from_module("chain", Chain(), (torch.randn(4, 8),))
    with pytest.raises(UsageError, match="has its own inputs"):
        trace(case, "portable:fp32", (torch.randn(4, 8),))
    drawing = Case("draws", lambda: (Chain(), (torch.randn(4, 8),)), random_outputs=True)
    with pytest.raises(ConflictingOptions, match="distribution"):
        trace(drawing, "portable:fp32")


def test_the_record_has_the_first_divergence() -> None:
    case = Case.from_module("chain", Chain(), (torch.randn(4, 8),))
    recipe = make_faulty_recipe("portable:fp32", TANH_IS_ERF)
    cell = run_cell(case, "portable:fp32", recipe=recipe)
    assert cell.first_divergence is None
    seen = trace(case, "portable:fp32", recipe=recipe)
    kept = Cell.from_json(with_divergence(cell, seen).to_json())
    assert kept.first_divergence == seen.divergence
    assert kept.first_divergence is not None
    assert "tanh (aten.tanh.default)" in str(kept.first_divergence)
    assert cell.first_divergence is None
    written = msgspec.json.decode(seen.to_json())
    assert written["first"]["node"] == "tanh"
    assert len(written["nodes"]) == len(seen.nodes)


class _Rotated(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("frequencies", torch.rand(8), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * self.frequencies).cos()


def test_a_program_is_flattened_after_a_delegate_took_its_buffers() -> None:
    module, x = _Rotated(), torch.randn(2, 8)
    tester = Tester(Case.from_module("rotated", module, (x,)), "metal:fp32").export().lower()
    tester.exported.constants.clear()  # as the delegate does, unless exir gave it a copy
    flat = tester.flatten_exported()(x)
    torch.testing.assert_close(flat, module(x), rtol=0, atol=0)
