"""Judge the errors of an output of a quantized graph together.

Integer kernels compute the number that a requantization rounds almost exactly, so that a correct
target returns another code only near a tie. The bound of an element has to allow a whole step at
every requantization on the way, because any element may be near a tie. Most are not: the root mean
square of the errors is far smaller, and shows a fault that changes all elements a little.

Its limit comes from runs of their own (:mod:`harness.numerics.requantization`), in which every
requantization rounds a number that is off by ``Precision.requantization`` steps. docs/numerics.md
derives it.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

# The largest of four runs, whose errors vary from run to run, is this much below the limit. A
# single code of much influence may differ on the target and in none of the runs.
_SAFETY = 4.0
# Elements that are left out, those with the largest errors: their own bounds judge them.
_LEFT_OUT = 4
# Share of the elements that may be a step off for other reasons.
_SHARE = 0.02
# The smallest slice that is judged on its own: the elements that are left out are 8 % of it.
_LEAST_ELEMENTS = 48
# Steps change an output by more than this share of it. Below, float operations alone computed it.
_LEAST_SHARE = 1e-4


class JointErrors:
    """The errors of an output in several runs, and the limit of a target's that follows.

    Errors are taken over the whole tensor, and over each slice along each dimension: a fault in one
    weight of a layer changes one channel. They are in steps. The step of an output that is no code
    is the error that a step at every requantization causes in it.

    Args:
        truth: the oracle, float64.
        step: the quantization step of the output, in its unit; None for an output that is no code.
        numbers: the oracle's numbers before they were rounded to codes, of the output's shape.
    """

    def __init__(
        self, truth: torch.Tensor, step: float | None, numbers: torch.Tensor | None = None
    ) -> None:
        self._truth = truth
        self._is_code = step is not None
        sizes = [1, *(truth.shape[dim] for dim in self._list_dims())]
        self._steps = [truth.new_full((size,), step or 0.0) for size in sizes]
        self._largest = [truth.new_zeros(size) for size in sizes]
        self._groups = None if numbers is None or step is None else _group_equal(numbers)
        self._is_judged = torch.ones_like(truth, dtype=torch.bool)

    def add_steps(self, run: torch.Tensor) -> None:
        """Add the output of a run in which every requantization is off by a step."""
        if not self._is_code:
            self._add(run, self._steps)

    def add(self, run: torch.Tensor) -> None:
        """Add the output of a run in which only numbers near a tie are requantized otherwise.

        The run draws an error for each element. A target rounds equal numbers alike, such as those
        of all elements that a clamp set to its bound. Where many elements share a number near a
        tie, their own bounds judge them.
        """
        if self._groups is not None and run.shape == self._truth.shape:
            differing = self._groups[self._find_differing(run)]
            self._is_judged &= ~torch.isin(self._groups, differing[differing >= 0])
        self._add(run, self._largest)

    def measure(self, actual: torch.Tensor) -> tuple[float, float, str]:
        """Return the root mean square error of a target, in steps, and its limit.

        Args:
            actual: the output, of the oracle's shape.

        Returns:
            Error, limit, and place (empty for the whole tensor) where the error uses most of it.
        """
        worst, most = (0.0, 1.0, ""), 0.0
        least = self._least_step
        for dim, error, largest, step in zip(
            [None, *self._list_dims()],
            self._compute_errors(actual),
            self._largest,
            self._steps,
            strict=True,
        ):
            limit = self._limit(largest, step)
            # NaN is wrong by the bound of its element.
            used = torch.where(step > least, error / limit, 0.0).nan_to_num(nan=0.0)
            at = int(used.argmax())
            if float(used[at]) > most:
                most, place = (
                    float(used[at]),
                    "" if dim is None else f"index {at} of dimension {dim}",
                )
                worst = float(error[at] / step[at]), float(limit[at] / step[at]), place
        return worst

    def describe(self, actual: torch.Tensor) -> str | None:
        """Return what is wrong with the errors of a target together, or None."""
        size, limit, place = self.measure(actual)
        if size <= limit:
            return None
        where = f" at {place}" if place else ""
        if self._is_code:
            return (
                f"{self._count_differing(actual)} of {actual.numel()} codes are not the quantized "
                f"graph's, more than rounding explains: an error of {size:.3g} steps in the root "
                f"mean square{where}, at most {limit:.3g}"
            )
        return (
            "the errors are larger than rounding explains: in the root mean square "
            f"{size:.3g} of the error of a step at every requantization{where}, at most {limit:.3g}"
        )

    def rejects_constants(self) -> bool:
        """Whether the errors of every constant together are larger than rounding explains.

        The elements that the best constant leaves out are the least or the greatest ones, and it is
        the mean of the others: its error is their standard deviation.
        """
        values = self._truth[self._is_judged].sort().values
        kept = len(values) - _LEFT_OUT
        if kept < 1 or not values.isfinite().all():
            return False
        error = values.unfold(0, kept, 1).var(1, correction=0).min().sqrt()
        step = self._steps[0]
        return bool((step > self._least_step) & (error > self._limit(self._largest[0], step)))

    @property
    def _least_step(self) -> float:
        """Steps up to this size change nothing: float operations alone computed the output."""
        return 0.0 if self._is_code else _LEAST_SHARE * float(self._truth.square().mean().sqrt())

    @staticmethod
    def _limit(largest: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        return (largest.square() * _SAFETY**2 + step.square() * _SHARE).sqrt()

    def _count_differing(self, actual: torch.Tensor) -> int:
        return int(self._find_differing(actual).sum())

    def _find_differing(self, actual: torch.Tensor) -> torch.Tensor:
        return (actual.double() - self._truth).abs() > self._steps[0] / 2

    def _add(self, run: torch.Tensor, largest: list[torch.Tensor]) -> None:
        """Add a run; one of another shape, or that is not finite, is left out."""
        if run.shape != self._truth.shape or not run.isfinite().all():
            return
        for each, error in zip(largest, self._compute_errors(run), strict=True):
            torch.maximum(each, error, out=each)

    def _list_dims(self) -> Iterator[int]:
        """The dimensions whose slices are judged by themselves."""
        elements = self._truth.numel()
        for dim, size in enumerate(self._truth.shape):
            if size > 1 and elements >= size * _LEAST_ELEMENTS:
                yield dim

    def _compute_errors(self, values: torch.Tensor) -> list[torch.Tensor]:
        """Return the root mean square error of the tensor, then those of its slices, without the
        largest errors."""
        squares = (values.double() - self._truth).square_()
        squares.masked_fill_(~self._is_judged, 0.0)
        return [
            _mean_without_largest(*rows).sqrt()
            for rows in zip(self._slice(squares), self._slice(self._is_judged), strict=True)
        ]

    def _slice(self, tensor: torch.Tensor) -> Iterator[torch.Tensor]:
        """Yield rows of elements that are judged together: all elements, then the slices."""
        yield tensor.reshape(1, -1)
        for dim in self._list_dims():
            yield tensor.movedim(dim, 0).flatten(1)


def _group_equal(numbers: torch.Tensor) -> torch.Tensor | None:
    """Return an index for each element, the same for equal numbers.

    Returns:
        A tensor of the same shape. An element is -1 where no more elements than those that are left
        out share its number; None where all are.
    """
    found = numbers.unique(return_inverse=True, return_counts=True)  # type: ignore[no-untyped-call]
    _, groups, sizes = found
    groups = torch.where(sizes[groups] > _LEFT_OUT, groups, -1)
    return groups if bool((groups >= 0).any()) else None


def _mean_without_largest(rows: torch.Tensor, is_judged: torch.Tensor) -> torch.Tensor:
    """Return the mean of each row over all but the largest elements.

    Args:
        rows: numbers; 0 for elements that are not judged.
        is_judged: which elements count.
    """
    left_out = min(_LEFT_OUT, rows.shape[1])
    # The sum of the rest, not a difference of sums: one error may be far larger than the others.
    largest = rows.topk(left_out, dim=1).indices
    rest = rows.scatter(1, largest, 0.0).sum(1)
    return rest / (is_judged.sum(1) - left_out).clamp(min=1)
