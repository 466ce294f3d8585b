"""Errors a little beyond their bound are judged by a bound from more runs."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from harness import Case, Tester
from harness.model import registry
from harness.model.precision import Precision
from harness.numerics.compare import compare
from harness.numerics.oracle import Reference, compute_reference
from harness.pipeline.reference.assumed_precision import add_runs
from harness.record.target import Target

EAGER = Target.parse("null:eager")


class Chain(torch.nn.Module):
    """Twenty operations that round once each: no other error hides the estimate of the spread."""

    def forward(self, x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        for index in range(10):
            x = x * a[index] + b[index]
        return x


def inputs(seed: int) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(seed)
    x, a, b = torch.randn(2**17), 1 + torch.rand(10, 2**17) / 10, torch.randn(10, 2**17) / 2
    return x.bfloat16(), a.bfloat16(), b.bfloat16()


def reference(seed: int, precision: Precision) -> Reference:
    return compute_reference(Chain(), [inputs(seed)], precision, 0)


@pytest.mark.one_of(3)
@pytest.mark.parametrize("seed", range(3))
def test_eager_conforms_where_eight_runs_underestimate_the_spread(seed: int) -> None:
    few, more = reference(seed, Precision()), reference(seed, add_runs(Precision()))
    assert compare(few.eager, few).is_close
    assert compare(few.eager, few, refine=lambda: more).passed


def test_a_real_error_beyond_the_bound_stays_a_mismatch() -> None:
    few, more = reference(0, Precision()), reference(0, add_runs(Precision()))
    wrong = few.eager[0][0].double()
    wrong[5] = few.oracle[0][0][5] + 1.6 * few.bound[0][0][5]
    found = compare([[wrong.bfloat16()]], few, refine=lambda: more)
    assert not found.passed
    assert found.numerics[0].exceeding == 1


def refuse() -> Reference:
    raise AssertionError("more runs are not needed")


@pytest.mark.parametrize("factor", [0.5, 5.0, float("inf")])
def test_a_clear_verdict_needs_no_more_runs(factor: float) -> None:
    few = compute_reference(torch.nn.Tanh(), [(torch.randn(64),)], Precision(), 0)
    value = few.oracle[0][0] + factor * few.bound[0][0]
    assert compare([[value.float()]], few, refine=refuse).passed == (factor < 1)


def test_a_wrong_structure_needs_no_more_runs() -> None:
    few = compute_reference(torch.nn.Tanh(), [(torch.randn(64),)], Precision(), 0)
    assert not compare([[few.eager[0][0][:5]]], few, refine=refuse).passed


def test_the_tester_judges_a_close_result_by_more_runs() -> None:
    tight = dataclasses.replace(registry.recipe(EAGER), precision=Precision(safety=2.7))
    case = Case("chain/bf16", lambda: (Chain(), inputs(0)))
    tester = Tester(case, EAGER, recipe=tight).export().lower().to_executorch().serialize().run()
    before = tester.compute_reference().reference
    assert compare(before.eager, before).is_close
    after = tester.compare().reference
    assert not torch.equal(before.bound[0][0], after.bound[0][0])
