"""Estimate the bound on an output's error from the perturbed runs.

:mod:`harness.numerics.perturbation` makes the runs; docs/numerics.md derives the bound.
"""

from __future__ import annotations

import math

import torch

from harness.model.precision import Precision
from harness.numerics.dtypes import get_compute_dtype

# Elements that are processed together; they fit into a cache.
_PART = 2**17
# Share of the runs that must be finite at an element: fewer do not give an estimate.
_LEAST_EVIDENCE = 1 / 4


class BoundEstimator:
    """Accumulates the perturbed runs of one value in sums, so that no run has to be stored.

    Args:
        truth: the oracle's numbers: float64, integer or bool.
        native_dtype: the value's dtype in eager.
        is_constant: it is a Python number, which is exact unless a run changes it.
    """

    def __init__(
        self, truth: torch.Tensor, native_dtype: torch.dtype, *, is_constant: bool = False
    ) -> None:
        self._dtype = native_dtype
        self._truth = truth.double() if native_dtype.is_floating_point else truth
        self._is_constant = is_constant
        self._alternatives: list[torch.Tensor] = []
        self._runs = 0
        # All flat. Of floats: the number of non-finite deviations, the sum of squares and the
        # largest square. Of integers: the largest deviation.
        self._nonfinite: torch.Tensor | None = None
        self._squares = torch.zeros(truth.numel(), dtype=torch.float64)
        self._largest = torch.zeros(truth.numel(), dtype=torch.float64)

    def add(self, run: torch.Tensor) -> None:
        """Add one run.

        Args:
            run: the value in this run, as numbers; not changed.

        Raises:
            ValueError: a floating value has another shape than the oracle's.
        """
        self._is_constant = self._is_constant and torch.equal(
            run.to(self._truth.dtype), self._truth
        )
        if self._dtype.is_floating_point:
            if run.shape != self._truth.shape:
                raise ValueError(
                    f"with rounding errors a value has shape {tuple(run.shape)}, without "
                    f"{tuple(self._truth.shape)}: no element has a bound"
                )
            self._add_floats(run.reshape(-1), self._truth.reshape(-1))
        elif run.shape == self._truth.shape:
            self._add_integers(run.to(self._truth.dtype))

    def _add_floats(self, run: torch.Tensor, truth: torch.Tensor) -> None:
        self._runs += 1
        alternative = None
        for start in range(0, len(run), _PART):
            here = slice(start, start + _PART)
            off = run[here].double() - truth[here]
            off.square_()
            # The sum shows whether all are finite, many times faster than an element-wise test.
            if not math.isfinite(float(off.sum())):
                infinite = self._drop_nonfinite(here, off, run[here], truth[here])
                if infinite is not None:
                    alternative = truth.clone() if alternative is None else alternative
                    alternative[here] = torch.where(infinite, run[here].double(), truth[here])
            self._squares[here] += off
            torch.maximum(self._largest[here], off, out=self._largest[here])
        if alternative is not None:
            self._alternatives.append(alternative.reshape(self._truth.shape))

    def _drop_nonfinite(
        self, here: slice, squares: torch.Tensor, run: torch.Tensor, truth: torch.Tensor
    ) -> torch.Tensor | None:
        """Set non-finite squares to zero: the run left a function's domain or the dtype's range.

        Returns:
            Which elements are infinite although the oracle is finite; None for none.
        """
        unknown = ~(run.double() - truth).isfinite()
        squares.masked_fill_(unknown, 0.0)
        if self._nonfinite is None:
            self._nonfinite = torch.zeros(len(self._squares), dtype=torch.int16)
        self._nonfinite[here] += unknown
        infinite = run.isinf() & truth.isfinite()
        return infinite if bool(infinite.any()) else None

    def _add_integers(self, run: torch.Tensor) -> None:
        if not torch.equal(run, self._truth):
            self._alternatives.append(run)
            off = (run.double() - self._truth.double()).abs_()
            torch.maximum(self._largest, off.flatten(), out=self._largest)

    def compute_bound(self, precision: Precision, step: float | None = None) -> torch.Tensor:
        """Return the largest error of each element that the target's arithmetic explains.

        Call once, after the last run: the sums are overwritten.

        Args:
            precision: rounding model of the target.
            step: quantization step of the output, in its unit; None where it has none.

        Returns:
            float64, shaped like the oracle's numbers. Infinite where too few runs are finite for an
            estimate. For integers and bools the largest deviation of the runs from the oracle: zero
            where all agree.
        """
        if not self._dtype.is_floating_point:
            return self._largest.reshape(self._truth.shape)
        if self._is_constant:
            return torch.zeros_like(self._truth)
        # Steps of several requantizations may cancel in every run; the last step always counts.
        least = 0.0
        if step is not None and bool(self._squares.any()):
            least = precision.safety * precision.step * step
        finfo = torch.finfo(get_compute_dtype(self._dtype, precision.arithmetic))
        flat = self._truth.reshape(-1)
        for start in range(0, len(flat), _PART):
            here = slice(start, start + _PART)
            finite: torch.Tensor | int = max(1, self._runs)
            if self._nonfinite is not None:
                finite = self._runs - self._nonfinite[here]
            limit = self._squares[here].div_(finite).sqrt_().mul_(precision.safety)
            # Each run's result conforms; across a discontinuity, it may exceed the estimate.
            torch.maximum(limit, self._largest[here].sqrt_(), out=limit)
            limit += flat[here].abs().mul_(finfo.eps / 2)
            limit += finfo.tiny  # results below the normal range may be flushed to zero
            limit.clamp_min_(least)
            if isinstance(finite, torch.Tensor):
                limit.masked_fill_(finite < _LEAST_EVIDENCE * self._runs, math.inf)
            if not math.isfinite(float(flat[here].sum())):
                # Non-finite values are compared for equality.
                limit.masked_fill_(~flat[here].isfinite(), 0.0)
        return self._squares.reshape(self._truth.shape)

    @property
    def alternatives(self) -> torch.Tensor | None:
        """Values that conform although they differ from the oracle by more than the bound.

        For integers and bools, the values of the perturbed runs: the other side of a discontinuity,
        or another of several equal elements. For floats, the infinities of runs where the oracle is
        finite: an intermediate of the usual formula is beyond the dtype's range.

        Returns:
            (number of them, *shape), in the dtype of the oracle's numbers; None for none.
        """
        return torch.stack(self._alternatives) if self._alternatives else None


def match_values(
    actual: torch.Tensor, oracle: torch.Tensor, alternatives: torch.Tensor | None
) -> torch.Tensor:
    """Mark elements that equal the oracle's value or an alternative to it.

    An integer also matches between the least and the greatest of them where the oracle and the
    alternatives have at least three different values: errors of several roundings add up to any
    value in between, and the runs do not try each of many equal elements.

    Args:
        actual: output of the target.
        oracle: same shape and kind of dtype.
        alternatives: :attr:`BoundEstimator.alternatives`.

    Returns:
        bool, shaped like ``actual``.
    """
    matching = actual == oracle
    if alternatives is None:
        return matching
    matching = matching | (alternatives == actual).any(0)
    if actual.is_floating_point() or actual.dtype == torch.bool:
        return matching
    low = torch.minimum(alternatives.amin(0), oracle)
    high = torch.maximum(alternatives.amax(0), oracle)
    inner = (alternatives != low) & (alternatives != high)
    several = inner.any(0) | ((oracle != low) & (oracle != high))
    return matching | (several & (actual >= low) & (actual <= high))
