"""Programs with dynamic dimensions are executed at the ends of their declared ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.export import Dim, export

from harness import Case, run_cell
from harness.model.case import Call, CallInputs
from harness.numerics.module_runs import run_calls
from harness.pipeline.dynamic_sizes.extra_calls import ELEMENTS, ExecutedSizes, choose_sizes
from harness.record.cell import Cell, Status
from harness.tracing.divergence import trace_cell
from harness.tracing.trace import trace

X = torch.randn(4, 6)


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1


class Specialized(torch.nn.Module):
    """torch.export keeps the example's branch of two, for the whole range."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3 if x.shape[0] == 1 else x * 2


def sizes_of(
    module: torch.nn.Module, shapes: Any, *calls: CallInputs, kwargs: dict[str, Any] | None = None
) -> ExecutedSizes:
    first = calls[0]
    assert isinstance(first, tuple)
    program = export(module, first, kwargs, dynamic_shapes=shapes)
    given = [Call(call, kwargs) if kwargs else call for call in calls]  # type: ignore[arg-type]
    return choose_sizes(program, given, lambda calls: run_calls(module, calls))


def rows(sizes: ExecutedSizes) -> list[int]:
    (one,) = sizes.dimensions
    return one.sizes


def case(module: torch.nn.Module, rows: Any, calls: Sequence[CallInputs] = ()) -> Case:
    return Case.from_module("sizes/case", module, (X,), dynamic_shapes=({0: rows},), calls=calls)


@pytest.mark.parametrize(
    ("dim", "expected"),
    [
        (Dim("rows", min=1, max=16), [4, 1, 16]),
        (Dim("rows", min=3, max=5), [4, 3, 5]),
        (Dim("rows", min=4, max=16), [4, 16, 10]),
        (Dim("rows", min=1, max=4), [4, 1, 2]),
        (Dim("rows", min=1), [4, 1, 8, 40]),
        (Dim("rows"), [4, 1, 8, 40]),
        (Dim.AUTO, [4, 2, 8, 40]),
        (2 * Dim("half", min=1, max=8), [4, 2, 16]),
    ],
)
def test_the_ends_of_a_range_and_a_size_between_are_executed(dim: Any, expected: list[int]) -> None:
    found = sizes_of(Scaled(), ({0: dim},), (X,))
    assert rows(found) == expected
    assert len(found.calls) == len(expected) - 1
    assert not found.untried


def test_sizes_that_are_derived_with_an_offset_keep_to_it() -> None:
    dim = 3 * Dim("third", min=1, max=8) + 1
    assert rows(sizes_of(Scaled(), ({0: dim},), (torch.randn(7, 2),))) == [7, 4, 25]


def test_calls_that_a_case_has_stay_and_are_not_repeated() -> None:
    shapes = ({0: Dim("rows", min=1, max=16)},)
    assert rows(sizes_of(Scaled(), shapes, (X,), (X[:1],))) == [4, 1, 16]
    assert rows(sizes_of(Scaled(), shapes, (X,), (X[:1],), (X.repeat(4, 1),))) == [4, 1, 16]


def test_static_programs_have_no_sizes() -> None:
    assert sizes_of(Scaled(), None, (X,)) == ExecutedSizes()


def test_several_dimensions_meet_at_some_corners() -> None:
    shapes = ({0: Dim("a", min=1, max=9), 1: Dim("b", min=2, max=12)},)
    first, second = sizes_of(Scaled(), shapes, (X,)).dimensions
    assert list(zip(first.sizes, second.sizes, strict=True)) == [
        (4, 6), (1, 2), (9, 12), (1, 12), (9, 2),
    ]  # fmt: skip


def test_nested_inputs_by_name_keep_to_a_symbol_that_they_share() -> None:
    class Nested(torch.nn.Module):
        def forward(self, x: torch.Tensor, *, more: dict[str, Any]) -> torch.Tensor:
            summed: torch.Tensor = x + more["pair"][1]
            return summed

    dim = {0: Dim("rows", min=1, max=8)}
    found = sizes_of(
        Nested(),
        {"x": dim, "more": {"pair": [None, dim]}},
        (X,),
        kwargs={"more": {"pair": [3, X + 1]}},
    )
    assert [str(one) for one in found.dimensions] == ["x:0", "more_pair_1:0"]
    assert [one.sizes for one in found.dimensions] == [[4, 1, 8]] * 2


def test_a_size_that_takes_too_much_is_not_executed_and_reported() -> None:
    large = 2 * ELEMENTS
    found = sizes_of(Scaled(), ({0: Dim("rows", min=1, max=large)},), (X,))
    assert max(rows(found)) * 6 * 2 <= ELEMENTS < 4 * max(rows(found)) * 6 * 2
    (line,) = found.untried
    assert line.startswith(f"x:0 = {large} was not executed: its tensors would have 1.01e+08 elem")


def test_twice_the_example_size_is_always_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.pipeline.dynamic_sizes.extra_calls.ELEMENTS", 0)
    found = sizes_of(Scaled(), ({0: Dim("rows", min=1)},), (X,))
    assert rows(found) == [4, 1, 8]
    assert found.untried[0].startswith("x:0 = 40 was not executed")


@pytest.mark.one_of(3)
@pytest.mark.parametrize("target", ["portable:fp32", "xnnpack:fp32", "mlx:fp32"])
def test_a_size_in_the_range_that_the_program_refuses_is_red(target: str) -> None:
    cell = run_cell(case(Scaled(), Dim("rows", min=1)), target)
    assert (cell.status, cell.stage) == (Status.FAILED, "run")
    assert cell.error is not None
    assert cell.error.startswith(
        "SizeRefused: the program refuses x:0 = 8 (declared: 1 and more; exported with 4): "
    )
    assert "eval_upper_bound" in cell.error
    (found,) = cell.dynamic_dimensions
    assert cell.refused_call is not None
    assert found.sizes[cell.refused_call] == 8
    assert Cell.from_json(cell.to_json()).dynamic_dimensions == cell.dynamic_dimensions
    assert run_cell(case(Scaled(), Dim("rows", min=1, max=16)), target).status is Status.PASSED


def test_a_size_that_is_refused_is_not_traced() -> None:
    model = replace(case(Scaled(), Dim("rows", min=1)), tags=frozenset({"model"}))
    cell = run_cell(model, "portable:fp32")
    assert cell.refused_call is not None
    assert trace_cell(cell, model) is None


def test_a_case_s_own_call_that_is_refused_is_named() -> None:
    own = case(Scaled(), Dim("rows", min=4), [(X.repeat(5, 1),)])
    cell = run_cell(own, "portable:fp32")
    assert cell.error is not None
    assert cell.refused_call == 1
    assert "refuses x:0 = 20 (declared: 4 and more; exported with 4)" in cell.error


def test_a_failure_at_the_example_sizes_is_not_blamed_on_sizes() -> None:
    cell = run_cell(case(_Unsafe(), Dim("rows", min=2, max=9)), "portable:fp32")
    assert (cell.status, cell.stage) == (Status.FAILED, "run")
    assert [one.sizes for one in cell.dynamic_dimensions] == [[4, 2, 9]]
    assert cell.refused_call is None
    assert "SizeRefused" not in (cell.error or "")


class _Unsafe(torch.nn.Module):
    """The exported program reads a row that the example does not have."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        index = torch.tensor([4 if torch.compiler.is_exporting() else 0])
        return torch.index_select(x, 0, index)


def test_a_wrong_size_is_named_and_torch_export_blamed() -> None:
    cell = run_cell(case(Specialized(), Dim("rows", min=1, max=16)), "portable:fp32")
    assert cell.status is Status.MISMATCH
    assert cell.error is not None
    assert "call 1 has x:0 = 1 (declared: 1 to 16; exported with 4); torch.export's" in cell.error


def test_a_trace_executes_the_size_that_is_wrong() -> None:
    found = trace(case(Specialized(), Dim("rows", min=1, max=16)), "portable:fp32")
    assert found.first is not None
    assert found.first.op == "aten.mul.Tensor"


def test_state_is_kept_through_added_calls() -> None:
    class Counting(torch.nn.Module):
        count: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(x.sum(0))
            return x + self.count

    cell = run_cell(case(Counting(), Dim("rows", min=1, max=16)), "portable:fp32")
    assert cell.status is Status.PASSED
    assert {row.call for row in cell.numerics} == {0, 1, 2, 3}  # the last one observes state
