"""The smallest errors that turn a cell red do not grow: docs/sensitivity.md has all figures."""

from __future__ import annotations

import math

import pytest

from benchmarks.verdicts.faults import KINDS
from benchmarks.verdicts.sensitivity import OPERATORS, measure
from harness.record.target import Target

pytestmark = pytest.mark.nightly

# By kind of error: the largest that may pass in a linear layer, a convolution and an attention.
ALLOWED = {
    "portable:fp32": (4e-5, 5e-4, 3e-4, 4e-5, None),
    "xnnpack:fp32": (4e-5, 5e-4, 3e-4, 4e-5, None),
    "tosa:fp": (4e-5, 5e-4, 3e-4, 4e-5, None),
    "xnnpack:int8": (0.032, 2, 0.016, 0.032, 1),
    "tosa:int": (0.063, 2, 0.063, 0.063, 2),
    "mlx:int4": (2e-5, 1e-3, 7e-5, 2e-5, None),
    "mlx:bf16": (0.063, 1, 0.016, 0.063, None),
    "metal:bf16": (0.008, 0.25, 0.008, 0.008, None),
}


@pytest.mark.parametrize("target", ALLOWED)
def test_small_errors_are_found(target: str) -> None:
    found = [each for case in OPERATORS for each in measure(case, Target.parse(target))]
    assert {each.kind for each in found} >= set(KINDS[:4])
    for kind, most in zip(KINDS, ALLOWED[target], strict=True):
        sizes = [each.size for each in found if each.kind == kind]
        assert most is None or max(map(_as_number, sizes)) <= most, kind


@pytest.mark.parametrize("target", ["xnnpack:int8", "tosa:int"])
def test_half_a_percent_in_the_weights_of_one_layer_is_found_in_8_bits(target: str) -> None:
    for case in OPERATORS[:2]:
        found = measure(case, Target.parse(target))
        sizes = [_as_number(each.size) for each in found if each.kind == KINDS[0]]
        assert max(sizes) < 0.005


def _as_number(size: float | None) -> float:
    return math.inf if size is None else size
