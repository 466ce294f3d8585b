"""Classify how severe the errors of a wrong output are, by the limits docs/numerics.md derives."""

from __future__ import annotations

import math

import torch

from harness.numerics.metrics.differences import compute_errors, iterate_parts
from harness.record.severity import Severity

HALF = 0.5
"""Share of the reference's energy, or of its elements, from which a wrong output no longer
resembles the reference: the wrong part is at least as large as the right one."""


def classify_severity(
    actual: torch.Tensor,
    oracle: torch.Tensor,
    bound: torch.Tensor,
    eager: torch.Tensor,
    alternatives: torch.Tensor | None = None,
    step: float | None = None,
) -> Severity | None:
    """Return how severe the errors of a tensor are; None where every element conforms.

    Only elements beyond their bound count: the errors of the others are explained. With r the root
    mean square of the reference, u the unit roundoff of the dtype and E the wrong elements:

    - negligible: max(E) is at most the rounding ``d`` = max(u·r, step/2);
    - critical: Σ E² is at least half of Σ reference², or an error is not finite;
    - minor: max(E) is at most sqrt(d·r), the geometric mean of one rounding and of r, where half of
      the digits of the dtype are right; major beyond it.

    An integer, bool or index that differs is wrong as a whole: critical where half of the elements
    are, else major.

    Args:
        actual: output of the target.
        oracle: exact values, same shape.
        bound: float64, same shape; the largest error that conforms.
        eager: output of eager, in the dtype of ``actual``.
        alternatives: further values that conform, along a first dimension.
        step: quantization step of the output, in its unit; None where it has none.
    """
    if not actual.is_floating_point():
        within = compute_errors(actual, oracle, bound, eager, alternatives)[1]
        wrong = int((~within).sum())
        return classify_share(wrong / actual.numel()) if wrong else None
    largest_value = _find_largest_finite(oracle, actual.dtype)
    flat = None if alternatives is None else alternatives.reshape(len(alternatives), -1)
    signal, noise, largest, number, wrong = 0.0, 0.0, 0.0, 0, 0
    for start, (value, truth, limit, native) in iterate_parts(actual, oracle, bound, eager):
        choice = None if flat is None else flat[:, start : start + len(value)]
        error, within = compute_errors(value, truth, limit, native, choice)
        # In units of the largest value, so that no square overflows or vanishes.
        scaled = _select_finite(truth.double(), actual.dtype) / (largest_value or 1.0)
        signal, number = signal + float(scaled @ scaled), number + len(scaled)
        off = error[~within] / (largest_value or 1.0)
        if len(off):
            wrong += len(off)
            noise, largest = noise + float(off @ off), max(largest, float(off.max()))
    if not wrong:
        return None
    # An error is infinite, or the reference is zero everywhere and has no scale for errors.
    if largest_value == 0 or not math.isfinite(noise):
        return Severity.CRITICAL
    size = math.sqrt(signal / number)
    rounding = max(torch.finfo(actual.dtype).eps / 2 * size, (step or 0.0) / 2 / largest_value)
    if largest <= rounding:
        return Severity.NEGLIGIBLE
    if noise >= HALF * signal:
        return Severity.CRITICAL
    return Severity.MINOR if largest <= math.sqrt(rounding * size) else Severity.MAJOR


def classify_share(share: float) -> Severity:
    """Return how severe it is that a share of the elements, or of a distribution, is wrong."""
    return Severity.CRITICAL if share >= HALF else Severity.MAJOR


def _select_finite(truth: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the values that the dtype represents as finite numbers."""
    return truth[truth.abs() <= torch.finfo(dtype).max]


def _find_largest_finite(oracle: torch.Tensor, dtype: torch.dtype) -> float:
    """Return the largest finite magnitude in the dtype; 0 where there is none."""
    largest = 0.0
    for _, (truth,) in iterate_parts(oracle):
        finite = _select_finite(truth.double(), dtype)
        largest = max(largest, float(finite.abs().max()) if len(finite) else 0.0)
    return largest
