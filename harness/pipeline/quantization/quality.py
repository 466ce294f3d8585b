"""Measure how far a quantized graph is from its float model, and what to expect of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.numerics.module_runs import CallResult
from harness.record.evidence import Quality

# Range of a tensor in its standard deviations: a normal distribution has one element in 16,000
# outside of four on either side.
_DEVIATIONS = 8.0


@dataclass(frozen=True)
class QualityOptions:
    """What to measure of a quantized graph beside its distance from the float model.

    Attributes:
        explain: which roundings cause the error; takes a run of the model for each.
        reach_db: which modules to leave in float to reach this SQNR; None for none.
    """

    explain: bool = False
    reach_db: float | None = None


def expect_sqnr(steps: Sequence[int]) -> float:
    """Return the SQNR, in dB, that roundings of a graph lead one to expect.

    A tensor whose range is 8 of its standard deviations and has ``n`` steps errs by ``8 / n /
    sqrt(12)`` of its standard deviation, the root mean square of an error that is uniform within a
    step: 41 dB for 255 steps. The errors of several tensors are independent and add up in power.

    Args:
        steps: number of steps of each rounded tensor.
    """
    noise = sum((_DEVIATIONS / each) ** 2 / 12 for each in steps if each > 0)
    return -10 * math.log10(noise) if noise else math.inf


def measure_quality(
    returned: Sequence[CallResult],
    expected: Sequence[CallResult],
    expected_db: float,
    roundings: int,
) -> Quality | None:
    """Compare the floating outputs of a quantized graph with those of its float model.

    Args:
        returned: what each call of the graph returned.
        expected: likewise, of the float model.
        expected_db: SQNR, in dB, that the roundings lead one to expect.
        roundings: number of rounded tensors, or of converted layers.

    Returns:
        None where no output has a finite SQNR: all are integers, zeros or infinite.
    """
    sqnrs: dict[int, float] = {}
    for number in range(min(len(call.outputs) for call in (*returned, *expected))):
        pair = ([call.outputs[number] for call in side] for side in (returned, expected))
        if (sqnr := compute_sqnr(*pair)) is not None:
            sqnrs[number] = sqnr
    if not sqnrs or not roundings:
        return None
    worst = min(sqnrs, key=sqnrs.__getitem__)
    return Quality(sqnr_db=sqnrs[worst], expected_db=expected_db, output=worst, roundings=roundings)


def compute_sqnr(outputs: Sequence[Any], expected: Sequence[Any]) -> float | None:
    """Return the SQNR of an output over all calls, in dB; infinite where it is equal.

    Args:
        outputs: its value in each call.
        expected: likewise, of the float model.

    Returns:
        None where it is no floating tensor, is zero, or is not finite.
    """
    signal = noise = 0.0
    for actual, wanted in zip(outputs, expected, strict=True):
        if not isinstance(wanted, torch.Tensor) or not wanted.is_floating_point():
            return None
        if not isinstance(actual, torch.Tensor) or actual.shape != wanted.shape:
            return None
        signal += float(wanted.double().square().sum())
        noise += float((actual.double() - wanted.double()).square().sum())
    if not (math.isfinite(signal) and math.isfinite(noise)) or not signal:
        return None
    return 10 * math.log10(signal / noise) if noise else math.inf
