"""Results of a program, natively and interpreted."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from harness import Case, Tester
from harness.errors import ProgramError
from harness.execution.execute import Interpreter, run_native
from harness.execution.kernels import AtenKernels
from harness.pipeline.route import lower

ROWS = {0: torch.export.Dim("rows", max=8)}


COLUMNS = {**ROWS, 1: torch.export.Dim("columns", max=6)}


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Everything(torch.nn.Module):
    """Returns a value of each type that the emitter supports, including a symbolic size."""

    def forward(self, x: torch.Tensor) -> tuple[Any, ...]:
        return 3, x + 1, 2.5, True, None, x.shape[0] * 2


class Mutating(torch.nn.Module):
    """Changes a buffer and an input, returns a constant, and one tensor twice."""

    state: torch.Tensor
    constant: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(2))
        self.register_buffer("constant", torch.ones(2))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.state.add_(x)
        x.mul_(10)
        doubled = self.state * 2
        return doubled, self.constant, doubled


def program_of(module: torch.nn.Module, *inputs: Any, dynamic_shapes: Any = None) -> bytes:
    case = Case("test/outputs", lambda: (module, inputs), dynamic_shapes=dynamic_shapes)
    tester = Tester(case, "null:eager")
    lower(tester)
    return tester.program


def run_interpreted(program: bytes, calls: list[tuple[Any, ...]]) -> list[list[Any]]:
    interpreter = Interpreter(program, {}, AtenKernels())
    return [interpreter(inputs) for inputs in calls]


@pytest.mark.parametrize("run", [run_native, run_interpreted])
def test_outputs_are_returned_in_the_order_of_the_plan(run: Any) -> None:
    program = program_of(Everything(), torch.zeros(4, 2), dynamic_shapes=(ROWS,))
    for rows, values in zip(
        (3, 4), run(program, [(torch.zeros(3, 2),), (torch.zeros(4, 2),)]), strict=True
    ):
        three, tensor, half, flag, nothing, size = values
        assert torch.equal(tensor, torch.ones(rows, 2))
        assert (three, half, flag, nothing, size) == (3, 2.5, True, None, rows * 2)
        assert [type(value) for value in (three, half, flag, size)] == [int, float, bool, int]


@pytest.mark.parametrize("run", [run_native, run_interpreted])
def test_a_mutated_input_is_an_output_and_a_mutated_buffer_is_not(run: Any) -> None:
    program = program_of(Mutating(), torch.ones(2))
    given = torch.ones(2)
    first, second = run(program, [(given,), (given,)])
    assert torch.equal(given, torch.ones(2)), "the caller's tensor was written to"
    for call, (mutated, doubled, constant, again) in enumerate((first, second), start=1):
        assert torch.equal(mutated, torch.full((2,), 10.0))
        assert torch.equal(doubled, torch.full((2,), 2.0 * call)), "the buffer lost its state"
        assert torch.equal(again, doubled)
        assert torch.equal(constant, torch.ones(2))


@pytest.mark.parametrize("run", [run_native, run_interpreted])
def test_an_input_that_varies_may_have_as_many_elements_as_are_planned(run: Any) -> None:
    program = program_of(Doubled(), torch.zeros(4, 3), dynamic_shapes=(COLUMNS,))
    for shape in ((8, 6), (2, 24), (48, 1)):
        x = torch.randn(shape)
        assert torch.equal(run(program, [(x,)])[0][0], x * 2)
    for shape in ((7, 7), (9, 6)):
        with pytest.raises((RuntimeError, ProgramError)):
            run(program, [(torch.zeros(shape),)])
