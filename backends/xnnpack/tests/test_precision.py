"""The rounding model of int4 weights: scales in a coarser dtype, and codes chosen by row."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from backends.xnnpack.precision import INT4
from harness import Tester, check
from harness.numerics.formats.quantization_steps import find_ties, is_scaled_by_row
from harness.numerics.oracle import compute_reference
from suites.quant.int4 import CASES


def test_blocks_of_one_row_are_recognised() -> None:
    x = torch.zeros(2, 3, 8)
    assert is_scaled_by_row(x, [1, 1, 8])
    assert not is_scaled_by_row(x, [1, 3, 8])
    assert not is_scaled_by_row(x, [1, 1, 4])


def test_ties_are_values_half_way_between_codes() -> None:
    x = torch.tensor([[-1.25, 0.5, 1.5, 2.25], [-1.5, 0.25, 1.25, 3.0]])
    codes = torch.tensor([[-128, -126, -125, 127], [-128, -126, -125, 127]])
    mask = find_ties(x, torch.ones(2, 1), codes, (-128, 127))
    assert mask[0].tolist() == [False, True, True, False]
    # The zero point of the second row is a tie.
    assert mask[1].tolist() == [True, False, False, True]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("seed", range(4))
def test_a_correct_layer_is_within_its_bound_by_far(seed: int) -> None:
    """The kernel rounds scales to bfloat16, and has no other error that matters."""
    layer = torch.nn.Linear(64, 256, bias=False)
    (cell,) = check(layer, (torch.randn(64, 64),), "xnnpack:int4", seed=seed)
    assert 0.3 < cell.numerics[0].bound_used < 0.85


def test_a_bound_allows_scales_in_bfloat16_and_no_step_of_the_input() -> None:
    case = next(case for case in CASES if case.name == "int4_linear/odd_rows")
    tester = Tester(case, "xnnpack:int4").quantize_weights().export()
    inputs = tester.built.calls

    def find_bound(roundings: float) -> torch.Tensor:
        precision = replace(INT4, scale_roundings=roundings)
        reference = compute_reference(tester.reference_module, inputs, precision, 0)
        bound = reference.bound[0][0]
        assert bound is not None
        return bound

    # 96 products of a weight below 0.1 and a value below 4, and an error of 2^-8 of each. A step of
    # the input would be fifty times the last bound.
    assert 1e-4 < float(find_bound(2.0**16).mean()) < 4 * 96**0.5 * 0.4 * 2**-8
    assert float(find_bound(0.0).mean()) < 1e-4
