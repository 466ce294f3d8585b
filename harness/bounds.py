"""The bound on an output's error, from the perturbed runs of :mod:`harness.arithmetic`.

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
        float64, shaped like ``truth``; zero for integers and bools.
    """
    if not native_dtype.is_floating_point:
        return torch.zeros(truth.shape, dtype=torch.float64)
    truth = truth.double()
    spread = torch.stack([run.double() for run in runs]) - truth
    finfo = torch.finfo(native_dtype)
    limit = (
        precision.safety * spread.square().mean(0).sqrt()
        + finfo.eps / 2 * truth.abs()
        + finfo.tiny  # results below the normal range may be flushed to zero
    )
    if step is not None and bool(spread.any()):
        # Steps of several requantizations may cancel in every run; the last one is there.
        limit = limit.clamp_min(precision.safety * precision.step * step)
    # A non-finite oracle is compared by kind; a spread that is NaN explains nothing.
    return torch.where(truth.isfinite() & ~limit.isnan(), limit, 0.0)
