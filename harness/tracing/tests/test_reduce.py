"""A red cell is reduced to the nodes that cause the failure."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from backends.portable import Portable
from harness import Case, UsageError, run_cell
from harness.errors import ProgramError
from harness.model.backend import Execution
from harness.model.case import arguments
from harness.tracing.reduce import ReducedProgram, reduce
from harness.tracing.tests.planting import (
    edge_operator,
    make_faulty_recipe,
    swap_operator,
    swap_operator_after,
)
from harness.tracing.tests.test_trace import TANH_IS_ERF, Chain, Fused


def reduced(case: Case, edit: Any, target: str = "portable:fp32", **options: Any) -> ReducedProgram:
    return reduce(case, target, recipe=make_faulty_recipe(target, edit), isolate=False, **options)


def test_a_wrong_value_is_left_with_its_node() -> None:
    case = Case("chain", lambda: (Chain(), (torch.randn(4, 8),)))
    found = reduced(case, TANH_IS_ERF)
    assert found.nodes == ("tanh",)
    assert found.operators == "aten.tanh.default"
    assert (found.stage, found.total) == ("compare", 6)
    assert "exceed the bound" in found.problem
    # The reduced program is a case, and red when run alone.
    cell = run_cell(found.case, found.target, recipe=found.recipe)
    assert cell.status.value == "mismatch"
    assert found.case.make().inputs[0].shape == (4, 8)


def test_a_fused_kernel_keeps_the_nodes_that_it_fuses() -> None:
    case = Case("fused", lambda: (Fused(), (torch.randn(4, 8), torch.randn(4, 8))))
    edit = swap_operator_after("aten.relu.default", "aten.neg.default", "aten.sub.Tensor")
    assert set(reduced(case, edit).nodes) == {"sub", "relu"}


def refuse(node: torch.fx.Node) -> bool:
    """A lowering that raises for a sigmoid of a sum."""
    if node.target is edge_operator("aten.sigmoid.default"):
        for source in node.all_input_nodes:
            if source.target is edge_operator("aten.add.Tensor"):
                raise RuntimeError(f"no kernel for {node.name} of {source.name}")
    return False


class Adds(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sigmoid(torch.tanh(x) * 2)
        return torch.sigmoid(torch.tanh(x) + x) - 1


def test_a_failure_is_left_with_the_nodes_that_fail() -> None:
    found = reduced(Case("adds", lambda: (Adds(), (torch.randn(2, 3),))), refuse)
    assert (found.stage, found.nodes) == ("lower", ("add", "sigmoid_1"))
    assert "RuntimeError: no kernel for" in found.problem
    assert found.total == 7


class Dying(Portable):
    """Appears to crash for every program with a tangent."""

    def execute(self, program: bytes, calls: Any) -> Execution:
        if b"aten::tan" in program and b"aten::tanh" not in program:
            raise ProgramError("the process that executes foreign programs was ended by SIGSEGV")
        return super().execute(program, calls)


def test_a_crash_is_a_failure_like_any_other() -> None:
    class Tangent(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tan(torch.sigmoid(x)).cumsum(0)

    case = Case("tangent", lambda: (Tangent(), (torch.randn(2, 3),)))
    found = reduce(case, "portable:fp32", backend=Dying())
    assert (found.stage, found.nodes) == ("run", ("tan",))


class Inner(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, *, twice: bool) -> torch.Tensor:
        x = self.linear(x)
        return x * 2 if bool(x.sum() > 0) and twice else x


class Outer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before = torch.nn.Linear(4, 4)
        self.layers = torch.nn.ModuleList([Chain(), Called()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers[1](self.before(x))  # type: ignore[no-any-return]


class Called(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x, twice=True)  # type: ignore[no-any-return]


def test_a_node_that_cannot_be_exported_stays_with_its_submodule() -> None:
    """The innermost failing module, with the keyword arguments that it is called with."""
    found = reduce(Case("outer", lambda: (Outer(), (torch.randn(2, 4),))), "portable:fp32")
    assert (found.stage, found.nodes) == ("export", ())
    assert found.note == "submodule layers.1.inner (Inner)"
    args, kwargs = arguments(found.case.make().inputs)
    assert (args[0].shape, dict(kwargs)) == ((2, 4), {"twice": True})


def test_a_passing_cell_cannot_be_reduced() -> None:
    case = Case("chain", lambda: (Chain(), (torch.randn(4, 8),)))
    with pytest.raises(UsageError, match="chain@portable:fp32 is green with seed 0"):
        reduce(case, "portable:fp32", isolate=False)
    edit = swap_operator("aten.tanh.default", "aten.tanh.default")
    unsupported = Case("infinite", lambda: (Chain(), (torch.full((4, 8), torch.inf),)))
    with pytest.raises(UsageError, match="not about the operators"):
        reduced(unsupported, edit, "xnnpack:int8")
