"""A planted fault turns its cell red on every target; the correct twin stays green."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from harness import Case, Tester, run_cell
from harness.record.cell import Status

FLOAT_TARGETS = ("portable:fp32", "xnnpack:fp32", "tosa:fp", "mlx:fp32", "null:eager")
TARGETS = (*FLOAT_TARGETS, "tosa:int")
# Seeds change only the weights: a plain run takes some seeds, a nightly run the rest.
HONEST_SEEDS = {"day": range(6), "night": range(6, 20)}


class Block(torch.nn.Module):
    """A projection, a residual with an order that matters, and a normalised result."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(16, 8)
        self.fault: str | None = None

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        weight, bias = self.linear.weight, self.linear.bias
        if self.fault == "weights scaled by 1 %":
            weight = weight * 1.01
        hidden = torch.nn.functional.linear(
            x, weight, None if self.fault == "dropped bias" else bias
        )
        if self.fault == "one wrong row":
            hidden = torch.cat([hidden[:3], hidden[2:3], hidden[4:]])
        left, right = (y, hidden) if self.fault == "swapped operands" else (hidden, y)
        result = torch.sigmoid(left - right)
        result = result + result.mean(dim=0 if self.fault == "wrong axis" else 1, keepdim=True)
        return result.T if self.fault == "transposed output" else result


FAULTS = (
    "weights scaled by 1 %",
    "dropped bias",
    "swapped operands",
    "wrong axis",
    "transposed output",
    "one wrong row",
)


def block(fault: str | None = None) -> Callable[[], tuple[Block, tuple[torch.Tensor, ...]]]:
    def build() -> tuple[Block, tuple[torch.Tensor, ...]]:
        module = Block()
        module.fault = fault
        # Square, so that a transposed output is not caught by its shape alone.
        return module, (torch.randn(8, 16), torch.randn(8, 8))

    return build


class Step(torch.nn.Module):
    """One operation, so that on an integer target there is one requantization."""

    def __init__(self, fault: str, planted: bool) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(16, 8)
        self.fault = fault
        self.planted = planted

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        weight, bias = self.linear.weight, self.linear.bias
        if self.fault == "swapped operands":
            return x - y if self.planted else y - x
        if self.fault == "wrong axis":
            return x.mean(0 if self.planted else 1, keepdim=True)
        if not self.planted:
            return torch.nn.functional.linear(x, weight, bias)
        scale = 1.01 if self.fault == "weights scaled by 1 %" else 1.0
        bias = None if self.fault == "dropped bias" else bias
        if self.fault == "one wrong row":
            x = torch.cat([x[:3], x[2:3], x[4:]])
        result = torch.nn.functional.linear(x, weight * scale, bias)
        return result.T if self.fault == "transposed output" else result


def step(fault: str, planted: bool) -> Callable[[], tuple[Step, tuple[torch.Tensor, ...]]]:
    def build() -> tuple[Step, tuple[torch.Tensor, ...]]:
        return Step(fault, planted), (torch.randn(8, 16), torch.randn(8, 16))

    return build


def run(target: str, *builds: Callable[[], Any]) -> Tester:
    """Run the second (faulty) program and judge it against the first one's reference."""
    # One name for both: the same weights and inputs.
    testers = [Tester(Case("block", build), target).export() for build in builds]
    for tester in testers:
        if tester.recipe.quantizer is not None:
            tester.quantize()
    honest, faulty = testers
    faulty.lower().to_executorch().serialize().run()
    return faulty.compare(honest.compute_reference().reference)


def error_in_steps(tester: Tester) -> float:
    """Largest error in quantization steps of the output, read from the quantized graph."""
    nodes = [n for n in tester.quantized.graph.nodes if "dequantize_per_tensor" in str(n.target)]
    step = nodes[-1].args[1]
    assert isinstance(step, float)
    return tester.verdict.numerics[0].max_abs / step


@pytest.mark.one_of(2)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("target", FLOAT_TARGETS)
def test_float_targets_catch_every_fault(target: str, fault: str) -> None:
    verdict = run(target, block(), block(fault)).verdict
    assert not verdict.passed, verdict.numerics


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.one_of(2)
def test_int8_targets_detect_errors_of_more_than_two_steps(fault: str) -> None:
    tester = run("tosa:int", step(fault, planted=False), step(fault, planted=True))
    if tester.verdict.passed:
        assert error_in_steps(tester) <= 2
        # One percent of the largest value is 1.3 of 128 steps.
        assert fault == "weights scaled by 1 %"


@pytest.mark.one_of(6)
@pytest.mark.parametrize("fault", [f for f in FAULTS if f != "weights scaled by 1 %"])
def test_int8_targets_detect_faults_before_several_requantizations(fault: str) -> None:
    assert not run("tosa:int", block(), block(fault)).verdict.passed


@pytest.mark.parametrize(
    ("target", "when"),
    [
        pytest.param(
            target,
            when,
            marks=pytest.mark.nightly if target == "tosa:int" or when == "night" else (),
        )
        for target in TARGETS
        for when in HONEST_SEEDS
    ],
)
@pytest.mark.one_of(2)
def test_the_same_program_without_the_fault_passes(target: str, when: str) -> None:
    case = Case("block", block())
    red = {
        seed: cell.error
        for seed in HONEST_SEEDS[when]
        if (cell := run_cell(case, target, seed=seed)).status is not Status.PASSED
    }
    assert not red


@pytest.mark.parametrize("target", FLOAT_TARGETS)
def test_bounds_are_tight(target: str) -> None:
    """A float bound that is thousands of roundings wide would excuse anything."""
    cell = run_cell(Case("block", block()), target)
    assert cell.numerics[0].bound < 1e-4
    assert cell.numerics[0].bound_used > 1e-4
