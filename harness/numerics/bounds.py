"""The bound on an output's error, from the perturbed runs of :mod:`harness.numerics.perturbation`.

docs/numerics.md derives it.
"""

from __future__ import annotations

import math

import torch

from harness.model.precision import Precision

# Elements that are looked at together: what a cache holds.
_PART = 2**17
# The share of the runs that have to be finite at an element: of fewer there is no spread.
_LEAST_EVIDENCE = 1 / 4


class Spread:
    """What the perturbed runs make of one value, as sums: no run has to outlive the next.

    Args:
        truth: the oracle's numbers: float64, or integer or bool.
        native_dtype: the value's dtype in eager.
        is_constant: it is a number of Python's, which nothing rounds unless a run moves it.
    """

    def __init__(
        self, truth: torch.Tensor, native_dtype: torch.dtype, *, is_constant: bool = False
    ) -> None:
        self._dtype = native_dtype
        self._truth = truth.double() if native_dtype.is_floating_point else truth
        self._is_constant = is_constant
        self._others: list[torch.Tensor] = []
        self._runs = 0
        # Flat, and so is what follows: deviations that are not finite, Σ of squares, and the
        # largest square; of integers the largest deviation.
        self._nonfinite: torch.Tensor | None = None
        self._squares = torch.zeros(truth.numel(), dtype=torch.float64)
        self._largest = torch.zeros(truth.numel(), dtype=torch.float64)

    def add(self, run: torch.Tensor) -> None:
        """Count one run.

        Args:
            run: the value in it, as numbers; left as it is.

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
            self._add_whole(run.to(self._truth.dtype))

    def _add_floats(self, run: torch.Tensor, truth: torch.Tensor) -> None:
        self._runs += 1
        other = None
        for start in range(0, len(run), _PART):
            here = slice(start, start + _PART)
            off = run[here].double() - truth[here]
            off.square_()
            # One number says whether all are finite, many times faster than looking at each.
            if not math.isfinite(float(off.sum())):
                infinite = self._settle_nonfinite(here, off, run[here], truth[here])
                if infinite is not None:
                    other = truth.clone() if other is None else other
                    other[here] = torch.where(infinite, run[here].double(), truth[here])
            self._squares[here] += off
            torch.maximum(self._largest[here], off, out=self._largest[here])
        if other is not None:
            self._others.append(other.reshape(self._truth.shape))

    def _settle_nonfinite(
        self, here: slice, squares: torch.Tensor, run: torch.Tensor, truth: torch.Tensor
    ) -> torch.Tensor | None:
        """Leave out of the squares what says nothing: a run that left the domain of a function, or
        the dtype's range. Which elements are infinite, though not in truth; None for none."""
        unknown = ~(run.double() - truth).isfinite()
        squares.masked_fill_(unknown, 0.0)
        if self._nonfinite is None:
            self._nonfinite = torch.zeros(len(self._squares), dtype=torch.int16)
        self._nonfinite[here] += unknown
        infinite = run.isinf() & truth.isfinite()
        return infinite if bool(infinite.any()) else None

    def _add_whole(self, run: torch.Tensor) -> None:
        if not torch.equal(run, self._truth):
            self._others.append(run)
            off = (run.double() - self._truth.double()).abs_()
            torch.maximum(self._largest, off.flatten(), out=self._largest)

    def bound(self, precision: Precision, step: float | None = None) -> torch.Tensor:
        """The largest error of each element that the target's arithmetic explains; once, after the
        last run.

        Args:
            precision: rounding model of the target.
            step: quantization step of the output, in its unit; None where it has none.

        Returns:
            float64, shaped like the oracle's numbers. Infinite where hardly any run is finite, so
            that nothing is known of an element. Of integers and bools, how far the runs are from
            the oracle: zero where all agree.
        """
        if not self._dtype.is_floating_point:
            return self._largest.reshape(self._truth.shape)
        if self._is_constant:
            return torch.zeros_like(self._truth)
        # Steps of several requantizations may cancel in every run; the last one is there.
        least = 0.0
        if step is not None and bool(self._squares.any()):
            least = precision.safety * precision.step * step
        finfo = torch.finfo(self._dtype)
        flat = self._truth.reshape(-1)
        for start in range(0, len(flat), _PART):
            here = slice(start, start + _PART)
            finite: torch.Tensor | int = max(1, self._runs)
            if self._nonfinite is not None:
                finite = self._runs - self._nonfinite[here]
            limit = self._squares[here].div_(finite).sqrt_().mul_(precision.safety)
            # What a run returns conforms; where one of them jumps, the spread alone says less.
            torch.maximum(limit, self._largest[here].sqrt_(), out=limit)
            limit += flat[here].abs().mul_(finfo.eps / 2)
            limit += finfo.tiny  # results below the normal range may be flushed to zero
            limit.clamp_min_(least)
            if isinstance(finite, torch.Tensor):
                limit.masked_fill_(finite < _LEAST_EVIDENCE * self._runs, math.inf)
            if not math.isfinite(float(flat[here].sum())):
                # A non-finite oracle is compared by kind.
                limit.masked_fill_(~flat[here].isfinite(), 0.0)
        return self._squares.reshape(self._truth.shape)

    @property
    def alternatives(self) -> torch.Tensor | None:
        """Other values than the oracle's that conform although no bound says so.

        Of integers and bools, what the perturbed runs return: either side of a jump, or another of
        several equal elements. Of floats the infinities that they return where the oracle is
        finite: an intermediate of the usual formula is beyond the dtype's range.

        Returns:
            (number of them, *shape), in the dtype of the oracle's numbers; None for none.
        """
        return torch.stack(self._others) if self._others else None


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
        others: what :attr:`Spread.alternatives` has.

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
