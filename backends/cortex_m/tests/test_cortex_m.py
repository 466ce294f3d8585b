"""Kernels are called and compute the quantized graph; faults in the lowered graph are red."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch.fx import Node

from harness import Case, Cell, Status, execute, registry, run_cell
from harness.backend_api import Availability, make_program_pass
from harness.pipeline.tester import Tester
from harness.record.target import Target

TARGETS = ("cortex_m:int8", "cortex_m:int8_m4")
SEEDS = (0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2)))


class Net(torch.nn.Module):
    """Has most kernels: convolutions, pools, an addition, a product, a table, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 6, 3, padding=1)
        self.depthwise = torch.nn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.linear = torch.nn.Linear(96, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.conv(x))
        y = torch.sigmoid(y + self.depthwise(y)) * y
        y = torch.nn.functional.max_pool2d(y, 2)
        y = torch.nn.functional.avg_pool2d(y, 2)
        return torch.softmax(self.linear(y.flatten(1)), -1)


CASE = Case("planted", lambda: (Net(), (torch.randn(1, 4, 16, 16),)))
KERNELS = {
    "cortex_m.quantized_conv2d.default", "cortex_m.quantized_depthwise_conv2d.default",
    "cortex_m.quantized_add.default", "cortex_m.quantized_activation.default",
    "cortex_m.quantized_mul.default", "cortex_m.quantized_max_pool2d.default",
    "cortex_m.quantized_avg_pool2d.default", "cortex_m.quantized_linear.default",
    "cortex_m.softmax.default",
}  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("target", TARGETS)
def test_a_network_runs_on_kernels(target: str, seed: int) -> None:
    cell = run_cell(CASE, target, seed=seed)
    assert (cell.status, cell.runtime) == (Status.PASSED, "reference"), cell.error
    assert not cell.nothing_delegated
    assert cell.delegation.delegated_ops.keys() >= KERNELS


def test_the_setting_makes_layouts_explicit() -> None:
    cell = run_cell(Case("small", PROGRAMS[CONV]), "cortex_m:int8+explicit_layout")
    assert cell.status is Status.PASSED, cell.error
    assert "cortex_m.quantized_conv2d_nhwc.default" in cell.delegation.delegated_ops


@dataclass(frozen=True)
class KernelFault:
    """A fault in the call of a kernel: an argument, or a constant that it reads, is another.

    Attributes:
        kernel: the kernel, and the program of :data:`PROGRAMS`.
        name: the argument.
        edit: makes the wrong value of the right one.
        other: name of an argument to exchange it with instead.
    """

    kernel: str
    name: str
    edit: Callable[[Any], Any] | None = None
    other: str = ""

    def plant(self, program: Any) -> Any:
        """Change a lowered program; a pass."""
        nodes = program.graph_module.graph.nodes
        node = next(each for each in nodes if f"cortex_m.{self.kernel}." in str(each.target))
        names = [argument.name for argument in node.target._schema.arguments]
        place, value = names.index(self.name), node.args[names.index(self.name)]
        if self.edit is None:
            other = names.index(self.other)
            args = list(node.args)
            args[place], args[other] = args[other], args[place]
            node.args = tuple(args)
        elif isinstance(value, Node) and value.op == "placeholder":
            signature = program.graph_signature
            names_of = {**signature.inputs_to_buffers, **signature.inputs_to_parameters}
            constant = program.state_dict[names_of[value.name]]
            edited = self.edit(constant.data)
            is_parameter = isinstance(constant, torch.nn.Parameter)
            program.state_dict[names_of[value.name]] = (
                torch.nn.Parameter(edited, requires_grad=False) if is_parameter else edited
            )
        else:
            node.update_arg(place, self.edit(value))
        program.graph_module.recompile()
        return program


CONV, DEPTHWISE, LINEAR = "quantized_conv2d", "quantized_depthwise_conv2d", "quantized_linear"
ADD, MUL = "quantized_add", "quantized_mul"
PROGRAMS: dict[str, Callable[[], tuple[torch.nn.Module, tuple[torch.Tensor, ...]]]] = {
    CONV: lambda: (
        torch.nn.Sequential(torch.nn.Conv2d(4, 6, 3, padding=1), torch.nn.ReLU()),
        (torch.rand(1, 4, 8, 8) + 0.5,),
    ),
    DEPTHWISE: lambda: (torch.nn.Conv2d(6, 6, 3, groups=6), (torch.randn(1, 6, 8, 8),)),
    LINEAR: lambda: (torch.nn.Linear(16, 12), (torch.randn(8, 16) + 1,)),
    ADD: lambda: (Join(torch.add), (torch.randn(8, 12), torch.randn(8, 12) * 5)),
    MUL: lambda: (Join(torch.mul), (torch.randn(8, 12), torch.randn(8, 12) + 2)),
    "quantized_activation": lambda: (torch.nn.Sigmoid(), (torch.randn(8, 12) * 3,)),
    "quantized_max_pool2d": lambda: (torch.nn.MaxPool2d(2), (torch.randn(1, 4, 8, 8),)),
    "quantized_avg_pool2d": lambda: (torch.nn.AvgPool2d(2), (torch.rand(1, 4, 8, 8) * 2,)),
    "softmax": lambda: (torch.nn.Softmax(-1), (torch.randn(8, 12),)),
}


class Join(torch.nn.Module):
    """A function of two tensors."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return self.function(a, b)


FAULTS = {
    "a wrong weight": KernelFault(CONV, "weight", lambda w: w.roll(1, 1)),
    "weights of another channel": KernelFault(DEPTHWISE, "weight", lambda w: w.roll(1, -1)),
    "a dropped bias": KernelFault(CONV, "bias", torch.zeros_like),
    "padding on one axis": KernelFault(CONV, "padding", lambda _: [2, 0]),
    "no offset of the input": KernelFault(CONV, "input_offset", lambda _: 0),
    "an offset of the output by one": KernelFault(DEPTHWISE, "output_offset", lambda z: z + 1),
    "multipliers of other channels": KernelFault(
        CONV, "requantize_multipliers", lambda m: m.flip(0).contiguous()
    ),
    "a shift by one": KernelFault(LINEAR, "requantize_shifts", lambda s: [s[0] + 1]),
    "an activation of larger values": KernelFault(CONV, "activation_min", lambda low: low + 64),
    "sums of other weights": KernelFault(LINEAR, "kernel_sum", lambda s: s.roll(1, -1)),
    "exchanged scales of an addition": KernelFault(ADD, "self_multiplier", other="other_shift"),
    "a zero point of an operand": KernelFault(ADD, "other_zero_point", lambda z: z + 1),
    "a zero point of a product": KernelFault(MUL, "other_zero_point", lambda z: z + 1),
    "a table for unsigned codes": KernelFault("quantized_activation", "lut", lambda t: t.roll(128)),
    "a pool with another stride": KernelFault("quantized_max_pool2d", "stride", lambda _: [2, 1]),
    "a pool of one row": KernelFault("quantized_avg_pool2d", "kernel_size", lambda _: [1, 2]),
    "a softmax of twice the input": KernelFault("softmax", "input_shift", lambda s: s + 1),
}


def run_with(fault: KernelFault | None, program: str, seed: int = 0) -> Cell:
    recipe = registry.recipe(Target.parse("cortex_m:int8"))
    planted = [] if fault is None else [make_program_pass(fault.plant)]
    changed = replace(recipe, transform_passes=lambda: [*recipe.transform_passes(), *planted])
    return run_cell(Case("planted", PROGRAMS[program]), "cortex_m:int8", seed=seed, recipe=changed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kernel", PROGRAMS)
@pytest.mark.one_of(3)
def test_without_a_fault_a_kernel_is_right(kernel: str, seed: int) -> None:
    cell = run_with(None, kernel, seed)
    assert cell.status is Status.PASSED, cell.error
    assert f"cortex_m.{kernel}.default" in cell.delegation.delegated_ops


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_red(name: str) -> None:
    cell = run_with(FAULTS[name], FAULTS[name].kernel)
    assert cell.status.is_red
    assert cell.stage in ("compare", "run"), cell.error


def test_any_program_of_kernels_can_be_executed() -> None:
    tester = Tester(CASE, "cortex_m:int8").export().quantize().lower().to_executorch().serialize()
    inputs = list(tester.built.inputs)
    (expected,) = tester.backend.execute(tester.serialized.data, [inputs]).outputs
    (found,) = execute(tester.serialized.data, [inputs])
    assert torch.equal(found[0], expected[0])


def test_what_the_kernels_cannot_take_is_unsupported() -> None:
    half = Case("half", lambda: (torch.nn.ReLU(), (torch.randn(3).half(),)))
    cell = run_cell(half, "cortex_m:int8")
    assert cell.status is Status.UNSUPPORTED
    assert "float16" in (cell.error or "")


def test_a_release_without_the_library_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = type(registry.backend("cortex_m"))()

    def fail() -> Any:
        raise ImportError("no module executorch.backends.cortex_m")

    monkeypatch.setattr(backend, "kernels", fail, raising=True)
    state = backend.availability()
    assert isinstance(state, Availability)
    assert not state.available
    assert "install executorch 1.5" in state.reason
