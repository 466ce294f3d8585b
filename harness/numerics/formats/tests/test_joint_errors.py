"""Codes of a quantized output are judged together, not only one by one."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
import torch

from harness import Case, Tester
from harness.model.precision import Precision
from harness.numerics.compare import Verdict, compare
from harness.numerics.formats.joint_errors import JointErrors
from harness.numerics.oracle import Reference, compute_reference

TARGETS = ("xnnpack:int8", "tosa:int")


class Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(32, 48), torch.nn.Linear(48, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


@functools.cache
def quantize(target: str) -> Tester:
    case = Case("layers/codes", lambda: (Layers(), (torch.randn(64, 32),)))
    tester = Tester(case, target).export().quantize()
    return tester.compute_reference()


def outputs(tester: Tester) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = tester.reference_module(*tester.built.inputs)
    return found[0] if isinstance(found, (tuple, list)) else found


def step(tester: Tester) -> float:
    found = tester.reference.steps[0]
    assert found is not None
    return found


def judge(tester: Tester, values: torch.Tensor) -> Verdict:
    return compare([[values]], tester.reference)


@pytest.mark.parametrize("target", TARGETS)
def test_the_quantized_graph_conforms_to_itself(target: str) -> None:
    tester = quantize(target)
    verdict = judge(tester, outputs(tester))
    assert verdict.passed
    assert verdict.numerics[0].rms_steps == pytest.approx(0, abs=1e-4)
    assert verdict.numerics[0].rms_steps_limit is not None


@pytest.mark.parametrize("target", TARGETS)
def test_some_codes_may_be_a_step_off(target: str) -> None:
    tester = quantize(target)
    values = outputs(tester).clone()
    values.view(-1)[::97] += step(tester)
    assert judge(tester, values).passed


@pytest.mark.parametrize("target", TARGETS)
def test_a_factor_on_the_last_weights_is_found(target: str) -> None:
    tester = quantize(target)
    width = step(tester)
    scaled = torch.round(outputs(tester) * 1.009 / width) * width
    verdict = judge(tester, scaled)
    assert not verdict.passed
    assert "codes are not the quantized graph's" in (verdict.problem or "")
    assert verdict.numerics[0].bound_used > 1
    assert verdict.severity is not None


@pytest.mark.parametrize("target", TARGETS)
def test_a_zero_point_that_is_off_by_one_is_found(target: str) -> None:
    tester = quantize(target)
    assert not judge(tester, outputs(tester) + step(tester)).passed


@pytest.mark.parametrize("target", TARGETS)
def test_a_fault_in_one_channel_is_found(target: str) -> None:
    tester = quantize(target)
    values = outputs(tester).clone()
    values[:, 5] += step(tester)
    verdict = judge(tester, values)
    assert "at index 5 of dimension 1" in (verdict.problem or "")


class FloatEnd(torch.nn.Module):
    """XNNPACK's quantizer leaves the sigmoid in float."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = Layers()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(4 * self.layers(x))


@functools.cache
def quantize_with_float_end() -> Tester:
    case = Case("layers/float_end", lambda: (FloatEnd(), (torch.randn(64, 32),)))
    return Tester(case, "xnnpack:int8").export().quantize().compute_reference()


@pytest.mark.nightly
def test_an_output_that_is_no_code_is_judged_by_what_a_step_causes() -> None:
    tester = quantize_with_float_end()
    assert tester.reference.steps == [None]
    assert judge(tester, outputs(tester)).passed
    verdict = judge(tester, outputs(tester) * 1.003)
    assert "of the error of a step" in (verdict.problem or "")
    values = outputs(tester).clone()
    values[:, 5] += 0.004
    verdict = judge(tester, values)
    assert "at index 5 of dimension 1" in (verdict.problem or "")
    assert verdict.numerics[0].exceeding == 0


def test_four_elements_are_judged_by_their_own_bounds() -> None:
    tester = quantize_with_float_end()
    bound = tester.reference.bound[0][0]
    assert bound is not None
    values = outputs(tester).double()
    values.view(-1)[:4] += 0.9 * bound.view(-1)[:4]
    verdict = judge(tester, values.float())
    assert verdict.passed
    assert verdict.numerics[0].bound_used > 0.8


def test_a_float_output_without_requantizations_has_no_limit() -> None:
    errors = JointErrors(torch.ones(64, dtype=torch.float64), None)
    errors.add_steps(torch.full((64,), 1 + 1e-6, dtype=torch.float64))
    assert errors.measure(torch.full((64,), 1.5)) == (0.0, 1.0, "")
    assert errors.describe(torch.full((64,), 1.5)) is None


def test_a_recipe_without_a_model_of_requantizations_has_no_limit() -> None:
    tester = quantize("xnnpack:int8")
    plain = compute_reference(tester.reference_module, tester.built.calls, Precision(), 0)
    assert plain.joint == []
    assert len(tester.reference.joint) == 1


def test_a_small_tensor_is_judged_as_a_whole() -> None:
    errors = JointErrors(torch.zeros(2, 3, dtype=torch.float64), 0.5)
    size, limit, where = errors.measure(torch.full((2, 3), 0.25))
    assert (size, where) == (0.5, "")
    assert size > limit
    assert "0 of 6 codes" in (errors.describe(torch.full((2, 3), 0.25)) or "")
    few = torch.zeros(2, 3)
    few[1] = 0.5
    assert errors.describe(few) is None


def test_runs_that_are_not_finite_are_left_out() -> None:
    errors = JointErrors(torch.zeros(4, dtype=torch.float64), 1.0)
    before = errors.measure(torch.zeros(4))
    errors.add(torch.full((4,), float("nan")))
    errors.add(torch.zeros(5))
    assert errors.measure(torch.zeros(4)) == before


class Narrowed(torch.nn.Module):
    """Rounds to float16 between two quantizations, as a target does, and the oracle does not.

    Values are 0 and the bound of a clamp. Float16 rounds the bound down, by almost half a step of
    float16, over a tie of the second quantization: most runs err less.
    """

    first = 0.5 + 0.95 * 2.0**-12
    second = 0.5 / (166.5 - 0.006)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = round_to_grid(torch.clamp(x, 0.0, self.first), self.first)
        return round_to_grid(x.to(torch.float16).to(torch.float32), self.second)


def round_to_grid(x: torch.Tensor, scale: float) -> torch.Tensor:
    grid = (scale, 0, -300, 300, torch.int16)
    codes = torch.ops.quantized_decomposed.quantize_per_tensor.default(x, *grid)
    return torch.ops.quantized_decomposed.dequantize_per_tensor.default(codes, *grid)


@pytest.mark.parametrize("seed", range(8))
def test_elements_that_share_a_number_are_rounded_alike(seed: int) -> None:
    graph = torch.fx.symbolic_trace(Narrowed())
    x = torch.zeros(12, 12)
    x[:3] = 2.0
    precision = Precision(safety=2.0, samples=16, requantization=2.0**-8)
    reference = compute_reference(graph, [(x,)], precision, seed)
    values = reference.eager[0][0]
    assert int((values != reference.oracle[0][0]).sum()) == 36
    assert compare([[values]], reference).passed
    # The other number is a code, and near no tie.
    values = torch.where(x == 0, Narrowed.second, reference.oracle[0][0].float())
    assert "codes are not the quantized graph's" in (compare([[values]], reference).problem or "")


def test_a_shared_number_that_no_run_rounds_otherwise_is_judged() -> None:
    numbers = torch.arange(96, dtype=torch.float64)
    numbers[:48] = 0
    errors = JointErrors(torch.zeros(96, dtype=torch.float64), 1.0, numbers)
    wrong, run = torch.zeros(96), torch.zeros(96, dtype=torch.float64)
    wrong[:48] = 1.0
    assert errors.describe(wrong)
    run[7] = 1.0
    errors.add(run)
    assert errors.describe(wrong) is None
    wrong[48:60] = 1.0
    assert errors.describe(wrong)


class Halved(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return round_to_grid(round_to_grid(x, 1.0), 2.0)


@pytest.mark.parametrize("seed", range(8))
def test_a_target_may_round_all_ties_up(seed: int) -> None:
    precision = Precision(safety=2.0, samples=16, requantization=2.0**-8)
    x = torch.arange(0.0, 48.0, 2.0)
    x[:5] = torch.tensor([1.0, 5.0, 9.0, 13.0, 17.0])
    reference = compute_reference(torch.fx.symbolic_trace(Halved()), [(x,)], precision, seed)
    rounded_up = (x / 2 + 0.5).floor() * 2
    assert int((rounded_up != reference.eager[0][0]).sum()) == 5
    assert compare([[rounded_up]], reference).passed
    rounded_up += 2.0
    assert not compare([[rounded_up]], reference).passed


class Masked(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return round_to_grid(torch.where(x > 40, float("inf"), round_to_grid(x, 1.0)), 2.0)


def test_infinite_numbers_are_not_near_a_tie() -> None:
    precision = Precision(safety=2.0, samples=16, requantization=2.0**-8)
    x = torch.arange(0.0, 96.0, 2.0)
    reference = compute_reference(torch.fx.symbolic_trace(Masked()), [(x,)], precision, 0)
    values = torch.where(x > 40, reference.eager[0][0] - 2.0, reference.eager[0][0])
    assert "codes are not the quantized graph's" in (compare([[values]], reference).problem or "")


class Stored(torch.nn.Module):
    """Adds to a buffer that another sum was copied to, before and after the copy."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = torch.nn.Buffer(torch.zeros(12, 12))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = round_to_grid(x, 1.0)
        before = round_to_grid(self.kept + x, 2.2)
        kept = self.kept.copy_(round_to_grid(torch.add(x, x, alpha=0.31), 1.0))
        return before, round_to_grid(round_to_grid(kept, 1.0) + x, 2.2)


def test_a_sum_behind_a_copy_to_a_buffer_may_be_fused_in_the_same_call() -> None:
    graph = torch.fx.symbolic_trace(Stored())
    fusing = Precision(
        safety=2.0, samples=16, requantization=2.0**-8, fused_requantizations=frozenset({"add"})
    )
    x = torch.arange(144.0).reshape(12, 12)
    reference = compute_reference(graph, [(x,), (x,)], fusing, 0)
    (first, behind), (before, _) = [list(call) for call in reference.eager]
    fused = round_to_grid(2.31 * x, 2.2)
    assert int((fused != behind).sum()) > 10
    assert compare([[first, fused], [before, fused]], reference).passed
    # What the last call has stored is rounded.
    verdict = compare([[first, fused], [fused, fused]], reference)
    assert "call 1 output 0: " in (verdict.problem or "")


class Clamped(torch.nn.Module):
    """A layer whose result is rounded to codes, clamped, and rounded to finer codes."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Buffer(torch.eye(12) * 0.37)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.linear(round_to_grid(x, 1.0), self.weight)
        return round_to_grid(round_to_grid(x, 2.2).clamp(max=30.0), 0.7)


def test_a_clamp_may_be_fused_into_the_layer_before_it() -> None:
    graph = torch.fx.symbolic_trace(Clamped())
    exact = Precision(safety=2.0, samples=16, requantization=2.0**-8)
    fusing = replace(exact, fused_clamps=frozenset({"linear", "addmm", "mm"}))
    x = torch.arange(144.0).reshape(12, 12)
    fused = round_to_grid((0.37 * x).clamp(max=30.0), 0.7)
    assert int((fused != graph(x)).sum()) > 10
    assert not compare([[fused]], compute_reference(graph, [(x,)], exact, 0)).passed
    reference = compute_reference(graph, [(x,)], fusing, 0)
    assert compare([[fused]], reference).passed
    assert compare([[graph(x)]], reference).passed
    wrong = round_to_grid((0.5 * x).clamp(max=30.0), 0.7)
    assert not compare([[wrong]], reference).passed


class Squared(torch.nn.Module):
    """The multiplier of its product is 0.4, so that a kernel rounds to halves of a step first."""

    step = 0.001

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = round_to_grid(x, 0.02)
        return round_to_grid(x * x, self.step)


def test_a_product_is_rounded_twice() -> None:
    graph = torch.fx.symbolic_trace(Squared())
    codes = torch.full((12, 12), 5.0)
    codes[:5] = 4.0  # the product is 6.4 steps: 6.5, then 7
    once = Precision(safety=2.0, samples=16, requantization=2.0**-5)
    twice = replace(once, rounds_products_twice=True)
    calls = [(codes * 0.02,)]
    values = ((codes.square() * 0.8 + 0.5).floor() / 2 + 0.5).floor() * Squared.step
    assert not compare([[values]], compute_reference(graph, calls, once, 0)).passed
    reference = compute_reference(graph, calls, twice, 0)
    assert compare([[values]], reference).passed
    values[5:] += Squared.step
    assert not compare([[values]], reference).passed


def test_a_constant_that_only_bounds_of_elements_pass_is_rejected() -> None:
    truth = torch.linspace(-4, 4, 100, dtype=torch.float64)
    errors = JointErrors(truth, 1.0)
    errors.add(truth.clone())  # no requantization is near a tie
    assert errors.rejects_constants()
    reference = Reference([[truth]], [[torch.full_like(truth, 5.0)]], [[truth.float()]])
    assert not compare([[truth.float()]], reference).numerics[0].is_conclusive
    (row,) = compare([[truth.float()]], replace(reference, joint=[[errors]])).numerics
    assert (row.conclusive_share, row.vacuous) == (1.0, None)


@pytest.mark.parametrize(
    "truth",
    [
        torch.full((100,), 2.0),
        # The elements that are left out are the only ones that differ.
        torch.tensor([9.0, -9.0, 9.0, -9.0] + [1.0] * 96),
        torch.tensor([1.0, 5.0, 9.0]),
        torch.tensor([1.0, torch.nan] * 50),
    ],
)
def test_a_constant_that_all_limits_pass_is_not_rejected(truth: torch.Tensor) -> None:
    errors = JointErrors(truth.double(), 1.0)
    errors.add(truth.double())
    assert not errors.rejects_constants()


def test_a_constant_within_the_errors_of_requantizations_is_not_rejected() -> None:
    truth = torch.linspace(-1, 1, 100, dtype=torch.float64)
    errors = JointErrors(truth, 0.1)
    errors.add(truth + 1.0)
    assert not errors.rejects_constants()
