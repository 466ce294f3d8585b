"""The graph that a quantizer rewrote is compared with the module, by structure and by value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from torch.fx import GraphModule, Node

from backends.null import BACKEND
from harness import Case, Cell, CellOptions, run_cell
from harness.pipeline.reference.tests.quantizers import Change, Rewriting
from harness.pipeline.shared_case_work import SharedCaseWork
from harness.record.cell import Status

aten = torch.ops.aten


class Module(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("memory", torch.zeros(3, 4))

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


def quantized(
    function: Callable[..., Any],
    change: Change = lambda _: None,
    *inputs: torch.Tensor,
    **more: Any,
) -> Cell:
    """The cell of a function on the null backend, with a quantizer that changes its graph."""

    def build() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
        return Module(function), inputs or (torch.randn(3, 4),)

    recipe = replace(BACKEND.recipes["eager"], quantizer=lambda: Rewriting(change))
    case = Case("rewriting", build, **more)
    return run_cell(case, "null:eager", recipe=recipe)


def nodes(model: GraphModule, target: Any) -> list[Node]:
    found = [node for node in model.graph.nodes if node.target == target]
    assert found, f"{target} is not in {model.graph}"
    return found


def drop(target: Any) -> Change:
    """Replace a node by its first argument."""

    def change(model: GraphModule) -> None:
        for node in nodes(model, target):
            node.replace_all_uses_with(node.args[0])
            model.graph.erase_node(node)

    return change


def edit_output(edit: Callable[[GraphModule, Any], Any]) -> Change:
    def change(model: GraphModule) -> None:
        (output,) = nodes(model, "output")
        with model.graph.inserting_before(output):
            output.args = (edit(model, output.args[0]),)

    return change


def to_double(model: GraphModule, outputs: Any) -> Any:
    return [
        model.graph.call_function(aten._to_copy.default, (outputs[0],), {"dtype": torch.double})
    ]


def unsqueezed(model: GraphModule, outputs: Any) -> Any:
    return [model.graph.call_function(aten.unsqueeze.default, (outputs[0], 0))]


def without_dimension(model: GraphModule) -> None:
    for node in nodes(model, aten.var.dim):
        node.args = (*node.args[:3], node.args[2])


def of_a_fixed_size(model: GraphModule) -> None:
    for node in nodes(model, aten.mean.dim):
        with model.graph.inserting_before(node):
            total = model.graph.call_function(aten.sum.dim_IntList, node.args, node.kwargs)
            mean = model.graph.call_function(aten.div.Tensor, (total, 4))
        node.replace_all_uses_with(mean)


def softer(model: GraphModule) -> None:
    for node in nodes(model, aten.dropout.default):
        node.args = (node.args[0], 0.1, True)


def remember(module: Any, x: torch.Tensor) -> torch.Tensor:
    result = module.memory + x
    module.memory.copy_(x * 2)
    return result


def write_input(_: Any, x: torch.Tensor) -> torch.Tensor:
    result = x * 2
    x.add_(1)
    return result


@dataclass(frozen=True)
class Fault:
    """A module, a change of its graph, and the cell's error."""

    function: Callable[..., Any]
    change: Change
    says: str
    inputs: tuple[torch.Tensor, ...] = ()
    case: dict[str, Any] = field(default_factory=dict)


FAULTS = {
    "a factor is dropped": Fault(
        lambda _, x: torch.softmax(x * 0.25, -1), drop(aten.mul.Tensor), "exceed the bound"
    ),
    "one in a thousand": Fault(lambda _, x: x * 1.001, drop(aten.mul.Tensor), "exceed the bound"),
    "another dtype": Fault(lambda _, x: x * 2, edit_output(to_double), "dtype float64"),
    "another rank": Fault(lambda _, x: x * 2, edit_output(unsqueezed), "shape (1, 3, 4)"),
    "a lost dimension": Fault(
        lambda _, x: aten.var.dim(x, [1], False, True), without_dimension, "shape (3,)"
    ),
    "outputs of one shape exchanged": Fault(
        lambda _, x: (x * 2, x + 1),
        edit_output(lambda _, outputs: list(outputs)[::-1]),
        "output 0: 12 of 12",
    ),
    "the second output only": Fault(
        lambda _, x: (x * 2, x + 1),
        edit_output(lambda _, outputs: [outputs[0], outputs[0]]),
        "output 1: 12 of 12",
    ),
    "an integer": Fault(
        lambda _, x: (x.argmax(-1) + 1, x * 2), drop(aten.add.Tensor), "output 0: 3 of 3"
    ),
    "a number": Fault(
        lambda _, x: (x * 2, 3), edit_output(lambda _, outputs: [outputs[0], 4]), "output 1"
    ),
    "state of the last call": Fault(
        remember,
        drop(aten.copy_.default),
        "call 1 output 0",
        case={"calls": lambda: [(torch.ones(3, 4),)]},
    ),
    "an input that the module changes": Fault(
        write_input, drop(aten.add_.Tensor), "changed input 0"
    ),
    "sizes of the example only": Fault(
        lambda _, x: x.mean(0),
        of_a_fixed_size,
        "call 1 output 0",
        (torch.randn(4, 4),),
        {
            "calls": lambda: [(torch.randn(7, 4),)],
            "dynamic_shapes": ({0: torch.export.Dim("rows", min=2, max=9)},),
        },
    ),
    "another distribution": Fault(
        lambda _, x: torch.nn.functional.dropout(x, 0.5, True),
        softer,
        "distributions differ",
        (torch.rand(64, 64) + 1,),
        {"random_outputs": True},
    ),
}


@pytest.mark.one_of(7)
@pytest.mark.parametrize("name", FAULTS)
def test_a_rewriting_that_changes_the_module_is_red(name: str) -> None:
    fault = FAULTS[name]
    right = quantized(fault.function, lambda _: None, *fault.inputs, **fault.case)
    assert right.status is Status.PASSED, right.error
    (form,) = right.intermediates
    assert form.name == "rewritten"
    assert form.identical or right.numerics[0].bound > 0
    cell = quantized(fault.function, fault.change, *fault.inputs, **fault.case)
    assert (cell.status, cell.stage) == (Status.FAILED, "quantize"), cell.error
    assert cell.error is not None
    assert cell.error.startswith("the quantizer's rewriting changed the module")
    assert fault.says in cell.error
    exported, rewritten = cell.intermediates
    assert (exported.name, rewritten.name) == ("exported", "rewritten")
    assert exported.problem is None
    assert rewritten.problem is not None
    assert Cell.from_json(cell.to_json()).intermediates == cell.intermediates


def test_another_formula_is_within_its_bounds() -> None:
    def change(model: GraphModule) -> None:
        for node in nodes(model, aten.div.Tensor):
            with model.graph.inserting_before(node):
                inverse = model.graph.call_function(aten.reciprocal.default, (node.args[1],))
                product = model.graph.call_function(aten.mul.Tensor, (node.args[0], inverse))
            node.replace_all_uses_with(product)

    cell = quantized(lambda _, x: x / (x.abs() + 1), change, torch.randn(64, 64))
    assert cell.status is Status.PASSED, cell.error
    (form,) = cell.intermediates
    assert form.name == "rewritten"
    assert not form.identical
    assert 0 < form.numerics[0].bound_used < 1


def test_a_difference_made_by_export_is_attributed_to_export() -> None:
    cell = quantized(lambda _, x: x * (2.5 if torch.compiler.is_exporting() else 2.0))
    assert (cell.status, cell.stage) == (Status.FAILED, "export")
    assert cell.error is not None
    assert "torch.export changed the module" in cell.error


def test_cells_of_one_case_share_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module's reference is computed once for a float target and a quantized target."""
    from harness.pipeline import shared_case_work

    made = []
    add_bounds = shared_case_work.add_bounds

    def counted(*args: Any, **kwargs: Any) -> Any:
        made.append(args)
        return add_bounds(*args, **kwargs)

    monkeypatch.setattr(shared_case_work, "add_bounds", counted)
    options = CellOptions(shared_work=SharedCaseWork())

    def build() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
        return Module(lambda _, x: x * 1.001), (torch.randn(3, 4),)

    recipe = BACKEND.recipes["eager"]
    case = Case("rewriting", build)
    run_cell(case, "null:eager", options=options)
    faulty = replace(recipe, quantizer=lambda: Rewriting(drop(aten.mul.Tensor)))
    cell = run_cell(case, "null:eager", recipe=faulty, options=options)
    assert cell.stage == "quantize"
    assert len(made) == 1
