"""Judge the codes of a quantized output together: how many may differ from the quantized graph's.

Integer kernels compute the number that a requantization rounds almost exactly, so that a correct
target returns another code only near a tie. The bound of an element has to allow a whole step at
every requantization on the way, because any element may be near a tie. Most are not: the root mean
square of the errors is far smaller, and shows a fault that changes all codes a little.

Its limit comes from runs of their own (``RequantizedMode`` of
:mod:`harness.numerics.perturbation`), in which every requantization rounds a number that is off by
``Precision.requantization`` steps. docs/numerics.md derives it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

# The largest of four runs, whose errors vary from run to run, is this much below the limit.
_SAFETY = 2.0
# Codes that may be a step off for other reasons: that many, and that share of all.
_CODES, _SHARE = 4, 0.02
# Elements of a slice that is judged by itself: the codes above are then at most 8 % of it.
_LEAST_ELEMENTS = 48


class CodeErrors:
    """The errors of the codes of an output in several runs, and the limit that follows.

    Errors are taken over the whole tensor, and over each slice along each dimension: a fault in one
    weight of a layer changes one channel.

    Args:
        truth: the oracle, float64.
        step: the quantization step of the output, in its unit.
    """

    def __init__(self, truth: torch.Tensor, step: float) -> None:
        self._truth = truth
        self._step = step
        self._largest = [torch.zeros_like(each) for each in self._compute_errors(truth)]

    def add(self, run: torch.Tensor) -> None:
        """Add the output of a run; one of another shape, or that is not finite, is left out."""
        if run.shape != self._truth.shape or not run.isfinite().all():
            return
        for largest, error in zip(self._largest, self._compute_errors(run), strict=True):
            torch.maximum(largest, error, out=largest)

    def measure(self, actual: torch.Tensor) -> tuple[float, float, str]:
        """Return the root mean square error of a target's codes, in steps, and its limit.

        Args:
            actual: the output, of the oracle's shape.

        Returns:
            Error, limit, and place (empty for the whole tensor) where the error uses most of it.
        """
        worst = (0.0, 1.0, "")
        for dim, error, largest in zip(
            [None, *self._list_dims()], self._compute_errors(actual), self._largest, strict=True
        ):
            allowed = _CODES * error.numel() / self._truth.numel() + _SHARE
            limit = (largest.square() * _SAFETY**2 + allowed).sqrt()
            at = int((error / limit).nan_to_num(nan=math.inf).argmax())
            if float(error[at]) * worst[1] > worst[0] * float(limit[at]):
                place = "" if dim is None else f"index {at} of dimension {dim}"
                worst = float(error[at]), float(limit[at]), place
        return worst

    def count_differing(self, actual: torch.Tensor) -> int:
        """Return how many codes are not the oracle's."""
        return int(((actual.double() - self._truth).abs() > self._step / 2).sum())

    def _list_dims(self) -> Iterator[int]:
        """The dimensions whose slices are judged by themselves."""
        elements = self._truth.numel()
        for dim, size in enumerate(self._truth.shape):
            if size > 1 and elements >= size * _LEAST_ELEMENTS:
                yield dim

    def _compute_errors(self, values: torch.Tensor) -> list[torch.Tensor]:
        """Return the root mean square error of the tensor, then those of its slices, in steps."""
        squares = ((values.double() - self._truth) / self._step).square_()
        found = [squares.mean().reshape(1)]
        for dim in self._list_dims():
            others = [other for other in range(squares.dim()) if other != dim]
            found.append(squares.mean(others) if others else squares)
        return [each.sqrt() for each in found]
