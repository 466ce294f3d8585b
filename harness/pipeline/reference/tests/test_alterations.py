"""A vendor's call that changes the caller's tensors fails the cell, which names call and tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy
import pytest
import torch

from backends.null import BACKEND
from harness import Case, Cell, CellOptions, Inputs, run_cell
from harness.backend_api import Recipe
from harness.errors import AlteredByCall
from harness.model.case import Built
from harness.pipeline import stages
from harness.pipeline.reference.alterations import AlterationCheck
from harness.pipeline.reference.tests.quantizers import Rewriting
from harness.pipeline.shared_case_work import SharedCaseWork
from harness.record.cell import Status

EAGER = BACKEND.recipes["eager"]
QUANTIZING = replace(EAGER, quantizer=lambda: Rewriting(lambda _: None))


class Masked(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("mask", torch.full((4, 4), -torch.inf).triu(1), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.linear(x) + self.mask, -1)


CASE = Case("altered", lambda: (Masked(), (torch.randn(2, 4, 4),)))


def cell_of(recipe: Recipe = EAGER, shared_work: SharedCaseWork | None = None) -> Cell:
    return run_cell(CASE, "null:eager", recipe=recipe, options=CellOptions(shared_work=shared_work))


def overwrite(tensor: torch.Tensor) -> None:
    """Write outside of torch's dispatcher, which changes no version."""
    version = tensor._version
    values = tensor.detach().numpy()
    values[numpy.isinf(values)] = 255
    values.flat[0] += 1
    assert tensor._version == version


def spoiling(
    monkeypatch: pytest.MonkeyPatch, name: str, spoil: Callable[..., None], after: bool = False
) -> None:
    """Make a vendor's stage write to its input."""
    original = getattr(stages, name)

    def spoilt(given: Any, *args: Any, **options: Any) -> Any:
        if not after:
            spoil(given)
        made = original(given, *args, **options)
        if after:
            spoil(given)
        return made

    monkeypatch.setattr(stages, name, spoilt)


def mask_of(program: Any) -> torch.Tensor:
    found = [value for value in program.constants.values() if tuple(value.shape) == (4, 4)]
    return found[0]


@pytest.mark.parametrize("recipe", [EAGER, QUANTIZING], ids=["float", "quantizing"])
def test_correct_calls_pass(recipe: Recipe) -> None:
    cell = cell_of(recipe)
    assert cell.status is Status.PASSED, cell.error
    assert cell.side_effects == []


@pytest.mark.parametrize(
    ("name", "stage", "call", "recipe"),
    [
        ("prepare", "quantize", "prepare", QUANTIZING),
        ("lower_any", "lower", "lower", EAGER),
    ],
)
def test_a_call_that_writes_to_the_callers_buffer_is_red(
    monkeypatch: pytest.MonkeyPatch, name: str, stage: str, call: str, recipe: Recipe
) -> None:
    spoiling(monkeypatch, name, lambda program, *_: overwrite(mask_of(program)))
    cell = cell_of(recipe)
    assert (cell.status, cell.stage) == (Status.FAILED, stage)
    assert cell.error == f"AlteredByCall: {call} changed what it was given: buffer mask"
    assert cell.side_effects == ["buffer mask"]
    assert Cell.from_json(cell.to_json()).side_effects == cell.side_effects


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(x.sum(0))
        return x * self.count


@pytest.mark.parametrize("name", ["prepare", "convert"])
def test_a_quantizer_must_not_carry_out_the_programs_own_writes(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    case = Case("counting", lambda: (Counting(), (torch.randn(3, 2),)))
    assert run_cell(case, "null:eager", recipe=QUANTIZING).status is Status.PASSED

    def write(given: Any) -> None:
        given.state_dict["count"].add_(1) if name == "prepare" else given.count.add_(1)

    spoiling(monkeypatch, name, lambda given, *_: write(given))
    cell = run_cell(case, "null:eager", recipe=QUANTIZING)
    assert (cell.status, cell.stage) == (Status.FAILED, "quantize")
    assert (
        cell.error
        == f"AlteredByCall: {name} changed what it was given: count of the exported program"
    )


def test_a_converted_graph_that_shares_memory_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(graph: torch.fx.GraphModule) -> None:
        overwrite(dict(graph.named_parameters())["linear.weight"])

    spoiling(monkeypatch, "convert", spoil)
    cell = cell_of(QUANTIZING)
    assert cell.error == (
        "AlteredByCall: convert changed what it was given: parameter linear.weight"
    )


def test_training_mode_and_a_new_buffer_are_red(monkeypatch: pytest.MonkeyPatch) -> None:
    spoiling(monkeypatch, "export", lambda module: module.linear.train(), after=True)
    assert cell_of().side_effects == ["training of linear"]
    spoiling(
        monkeypatch,
        "export",
        lambda module: module.linear.register_buffer("scale", torch.ones(1)),
        after=True,
    )
    assert cell_of().side_effects == ["training of linear", "buffer linear.scale"]


def test_weights_are_quantized_in_a_copy() -> None:
    def convert(module: torch.nn.Module) -> torch.nn.Module:
        overwrite(module.get_parameter("linear.weight"))
        return module

    cell = cell_of(replace(EAGER, quantize_weights=convert))
    assert cell.status is Status.PASSED, cell.error


def test_inputs_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    original = stages.export

    def export(module: torch.nn.Module, inputs: Inputs, **options: Any) -> Any:
        made = original(module, inputs, **options)
        overwrite(inputs[0])
        return made

    monkeypatch.setattr(stages, "export", export)
    assert cell_of().error == "AlteredByCall: export changed what it was given: input 0 of call 0"


def test_a_program_shared_by_cells_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program has the tensors of the first cell's module, not of the second cell's."""
    shared_work = SharedCaseWork()
    assert cell_of(shared_work=shared_work).status is Status.PASSED
    spoiling(monkeypatch, "lower_any", lambda program, *_: overwrite(mask_of(program)))
    cell = cell_of(shared_work=shared_work)
    assert cell.side_effects == ["mask of the exported program"]


def test_an_input_that_the_module_writes_is_calibrated_on_a_copy() -> None:
    class Writes(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result = x * 2
            x.add_(1)
            return result

    case = Case("altered", lambda: (Writes(), (torch.randn(2, 4),)))
    cell = run_cell(case, "null:eager", recipe=QUANTIZING)
    assert cell.status is Status.PASSED, cell.error


INPUTS: dict[str, Callable[[], torch.Tensor]] = {
    "row major": lambda: torch.randn(3, 4),
    "transposed": lambda: torch.randn(3, 4).T,
    "strided": lambda: torch.randn(6, 4)[::2],
    "channels last": lambda: torch.randn(1, 3, 4, 5).to(memory_format=torch.channels_last),
    "one element": lambda: torch.randn(3, 4)[0, 1],
    "half": lambda: torch.randn(3, 4).half(),
    "brain float": lambda: torch.randn(3, 4).bfloat16(),
    "complex": lambda: torch.randn(3, 4, dtype=torch.complex64),
    "conjugate": lambda: torch.randn(3, 4, dtype=torch.complex64).conj(),
    "bool": lambda: torch.ones(3, 4, dtype=torch.bool),
    "integers": lambda: torch.arange(12),
}


@pytest.mark.parametrize("name", INPUTS)
def test_a_write_to_any_tensor_is_detected(name: str) -> None:
    tensor = INPUTS[name]()
    held = AlterationCheck(Built(torch.nn.Identity(), ((torch.ones(2), tensor),)))
    held.record_before_call()
    held.check_after_call("first")
    held.record_before_call()
    tensor.data[(-1,) * tensor.dim()] = 0
    with pytest.raises(AlteredByCall, match=r"second changed .*: input 1 of call 0$"):
        held.check_after_call("second")
    held.check_after_call("third")


def test_an_empty_input_and_one_without_memory_are_held() -> None:
    inputs: Inputs = (torch.empty(0, 3), torch.empty(2, device="meta"), torch.eye(2).to_sparse())
    held = AlterationCheck(Built(torch.nn.Identity(), (inputs,)))
    held.record_before_call()
    held.check_after_call("call")
