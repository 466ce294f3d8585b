"""The bound on an output's error, from the perturbed runs of :mod:`harness.numerics.perturbation`.

docs/numerics.md derives it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from harness.precision import Precision


def limits(
    truth: torch.Tensor,
    runs: Sequence[torch.Tensor],
    native_dtype: torch.dtype,
    precision: Precision,
    step: float | None = None,
) -> torch.Tensor:
    """The largest error of each element that the target's arithmetic explains.

    Args:
        truth: the oracle's output: float64, or integer or bool.
        runs: the same output in each perturbed run, same shape.
        native_dtype: the output's dtype in eager.
        precision: rounding model of the target.
        step: quantization step of the output, in its unit; None where it has none.

    Returns:
        float64, shaped like ``truth``. Of integers and bools, how far the runs are from it: zero
        where all agree.
    """
    if not native_dtype.is_floating_point:
        reach = torch.zeros(truth.shape, dtype=torch.float64)
        for run in runs:
            if run.shape == truth.shape:
                reach = torch.maximum(reach, (run.double() - truth.double()).abs())
        return reach
    truth = truth.double()
    deviations = torch.stack([run.double() for run in runs]) - truth
    # A run that left the domain of a function, or the range of the dtype, says nothing here.
    telling = deviations.isfinite()
    squares = torch.where(telling, deviations, 0.0).square()
    spread = (squares.sum(0) / telling.sum(0).clamp_min(1)).sqrt()
    finfo = torch.finfo(native_dtype)
    # What a run returns conforms; where one of them jumps, the spread alone says less.
    limit = (precision.safety * spread).maximum(squares.amax(0).sqrt())
    limit = (
        limit
        + finfo.eps / 2 * truth.abs()
        + finfo.tiny  # results below the normal range may be flushed to zero
    )
    if step is not None and bool(spread.any()):
        # Steps of several requantizations may cancel in every run; the last one is there.
        limit = limit.clamp_min(precision.safety * precision.step * step)
    # A non-finite oracle is compared by kind.
    return torch.where(truth.isfinite(), limit, 0.0)


def alternatives(
    truth: torch.Tensor, runs: Sequence[torch.Tensor], native_dtype: torch.dtype
) -> torch.Tensor | None:
    """Other values than the oracle's that conform although no bound says so.

    Of integers and bools, what the perturbed runs return: either side of a jump, or another of
    several equal elements. Of floats the infinities that they return where the oracle is finite: an
    intermediate of the usual formula is beyond the dtype's range.

    Args:
        truth: the oracle's output: float64, or integer or bool.
        runs: the same output in each perturbed run.
        native_dtype: the output's dtype in eager.

    Returns:
        (number of them, *shape), in the dtype of ``truth``; None where there is none.
    """
    same = [run for run in runs if run.shape == truth.shape]
    if native_dtype.is_floating_point:
        truth = truth.double()
        others = [torch.where(run.isinf() & truth.isfinite(), run.double(), truth) for run in same]
    else:
        others = [run.to(truth.dtype) for run in same]
    differing = [other for other in others if not torch.equal(other, truth)]
    if native_dtype.is_floating_point:
        differing = [other for other in differing if bool((other.isinf() & truth.isfinite()).any())]
    return torch.stack(differing) if differing else None


def attained(
    actual: torch.Tensor, oracle: torch.Tensor, others: torch.Tensor | None
) -> torch.Tensor:
    """Which elements are the oracle's value or an alternative to it.

    Of integers, where the oracle and the alternatives are at least three different numbers, what
    lies between them too: errors of several roundings add up to anything in between, and of many
    equal elements not every one is tried.

    Args:
        actual: what the target returned.
        oracle: same shape and kind of dtype.
        others: what :func:`alternatives` returns.

    Returns:
        bool, shaped like ``actual``.
    """
    matching = actual == oracle
    if others is None:
        return matching
    matching = matching | (others == actual).any(0)
    if actual.is_floating_point() or actual.dtype == torch.bool:
        return matching
    low = torch.minimum(others.amin(0), oracle)
    high = torch.maximum(others.amax(0), oracle)
    inner = (others != low) & (others != high)
    several = inner.any(0) | ((oracle != low) & (oracle != high))
    return matching | (several & (actual >= low) & (actual <= high))
