"""A planted fault turns its cell red on every target; the honest twin stays green."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from harness import Case, Tester, run_cell
from harness.cell import Status

FLOAT_TARGETS = ("portable:fp32", "xnnpack:fp32", "tosa:fp", "null:eager")
TARGETS = (*FLOAT_TARGETS, "tosa:int")
HONEST_SEEDS = 20


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


def run(target: str, fault: str | None) -> Tester:
    """Run the (faulty) program and judge it against the honest module's reference."""
    # One name for both: the same weights and inputs.
    testers = [Tester(Case("block", block(which)), target).export() for which in (None, fault)]
    for tester in testers:
        if tester.recipe.quantizer is not None:
            tester.quantize()
    honest, faulty = testers
    faulty.lower().to_executorch().serialize().run()
    return faulty.compare(honest.refer().reference)


def error_in_steps(tester: Tester) -> float:
    """Largest error in quantization steps of the output, read from the quantized graph."""
    nodes = [n for n in tester.quantized.graph.nodes if "dequantize_per_tensor" in str(n.target)]
    step = nodes[-1].args[1]
    assert isinstance(step, float)
    return tester.verdict.numerics[0].max_abs / step


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("target", FLOAT_TARGETS)
def test_float_targets_catch_every_fault(target: str, fault: str) -> None:
    verdict = run(target, fault).verdict
    assert not verdict.passed, verdict.numerics


@pytest.mark.parametrize("fault", FAULTS)
def test_int_catches_what_exceeds_two_steps(fault: str) -> None:
    tester = run("tosa:int", fault)
    steps = error_in_steps(tester)
    # The block has two requantizations on its longest path, whose errors may add up.
    assert tester.verdict.passed is False or steps <= 2, f"{steps:.1f} steps passed"
    if fault != "weights scaled by 1 %":
        assert not tester.verdict.passed, f"{fault}: {steps:.1f} steps"


@pytest.mark.parametrize("target", TARGETS)
def test_the_honest_twin_stays_green(target: str) -> None:
    case = Case("block", block())
    red = {
        seed: cell.error
        for seed in range(HONEST_SEEDS)
        if (cell := run_cell(case, target, seed=seed)).status is not Status.PASSED
    }
    assert not red


@pytest.mark.parametrize("target", FLOAT_TARGETS)
def test_bounds_are_tight(target: str) -> None:
    """A float bound that is thousands of roundings wide would excuse anything."""
    cell = run_cell(Case("block", block()), target)
    assert cell.numerics[0].bound < 1e-4
    assert cell.numerics[0].bound_used > 1e-4
