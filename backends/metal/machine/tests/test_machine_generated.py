from __future__ import annotations

from typing import Any

import pytest
import torch

from backends.metal.cpp.wrapper import Wrapper
from backends.metal.fallbacks import IMPLEMENTATIONS
from backends.metal.generation.generate import generate
from backends.metal.host import OutOfBounds
from backends.metal.machine.calls import MachineCall
from backends.metal.machine.machine import Machine
from backends.metal.machine.statements import Thrown
from backends.metal.tests.programs import Apply, Apply3, partition


def generated(
    module: torch.nn.Module, *inputs: torch.Tensor, check_inputs: bool = False, **options: Any
) -> Machine:
    made = generate(partition(module, *inputs, **options))
    constants = []
    for constant in made.constants:
        data = bytearray(made.weights[constant.start : constant.start + constant.size])
        flat = torch.frombuffer(data, dtype=getattr(torch, constant.spec.dtype))
        shape = [int(size) for size in constant.spec.shape]
        constants.append(flat.as_strided(shape, [int(step) for step in constant.spec.strides]))
    program = Wrapper.parse(made.wrapper)
    return Machine(
        program,
        made.kernels,
        constants,
        mutated={constant.spec.name for constant in made.constants if constant.mutated},
        check_inputs=check_inputs,
        fallbacks=IMPLEMENTATIONS,
    )


def test_generated_linear_matches_eager() -> None:
    module, given = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU()), torch.randn(2, 8)
    (got,) = generated(module, given).run([given])
    torch.testing.assert_close(got, module(given).detach())


def test_generated_views_match_eager() -> None:
    def split(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        left, right = a.chunk(2, dim=1)
        return left @ right.T, left.transpose(0, 1).contiguous() + 1

    given = torch.randn(3, 8)
    found = generated(Apply(split), given).run([given])
    for got, expected in zip(found, split(given), strict=True):
        torch.testing.assert_close(got, expected)


def test_kernel_that_writes_a_part_of_a_concatenation_misses_it() -> None:
    def swap(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        left, right = a.chunk(2, dim=1)
        return torch.cat([right * 2, left], 1), left.transpose(0, 1).contiguous() + 1

    given = torch.randn(3, 8)
    # The runtime gives the kernel a dense copy of the part; it writes with the whole's strides.
    with pytest.raises(OutOfBounds, match="which has 12 elements"):
        generated(Apply(swap), given).run([given])


def test_generated_program_takes_any_length() -> None:
    length = torch.export.Dim("length", min=2, max=64)
    module = torch.nn.Softmax(-1)
    run = generated(module, torch.randn(3, 8), dynamic_shapes=({1: length},))
    for size in (2, 8, 33):
        given = torch.randn(3, size)
        torch.testing.assert_close(run.run([given])[0], module(given))


def test_inputs_are_compared_with_traced_inputs_only_on_request() -> None:
    options: dict[str, Any] = {"dynamic_shapes": ({0: torch.export.Dim("rows", min=1, max=64)},)}
    module, one = torch.nn.Softmax(-1), torch.randn(1, 8)
    (got,) = generated(module, torch.randn(3, 8), **options).run([one])
    torch.testing.assert_close(got, module(one))
    with pytest.raises(Thrown, match="dim value is too small"):
        generated(module, torch.randn(3, 8), check_inputs=True, **options).run([one])


def test_mutated_constants_are_memory_of_the_run() -> None:
    class Counter(torch.nn.Module):
        seen: torch.Tensor
        step: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(16))
            self.register_buffer("step", torch.ones(16))

        def forward(self, a: torch.Tensor) -> torch.Tensor:
            self.seen.add_(a * self.step)
            return self.seen * 2

    machine = generated(Counter(), torch.ones(16))
    seen: dict[str, str] = {}
    names = [info.name for info in machine.program.constants]

    def note(call: MachineCall) -> None:
        for tensor in call.tensors:
            for name, constant in zip(names, machine.constants, strict=True):
                if tensor.torch.data_ptr() == constant.data_ptr():
                    seen[name] = tensor.origin

    machine.check = note
    machine.run([torch.ones(16)])
    assert seen == {"seen": "buffer", "step": "constant"}


def test_generated_program_of_three_inputs() -> None:
    def add(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return torch.addcmul(a, b, c)

    given = [torch.randn(3, 4) for _ in range(3)]
    (got,) = generated(Apply3(add), *given).run(given)
    torch.testing.assert_close(got, add(*given))
