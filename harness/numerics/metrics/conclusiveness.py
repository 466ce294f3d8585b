"""Measure how conclusive an output is: could a backend that ignores its inputs have returned it?"""

from __future__ import annotations

import math

import torch

from harness.record.evidence import Vacuity, VacuousCause, is_conclusive

_SAMPLE = 2**20


def compute_conclusive_share(oracle: torch.Tensor, bound: torch.Tensor) -> float:
    """Return the share of the elements that are conclusive: the best constant is wrong there.

    A constant conforms at an element when it lies within the element's bound; the best constant
    conforms at the most elements. Zeros, constants, values below the normal range, saturated values
    and bounds as wide as the spread of the values all allow one constant everywhere: the share is
    0. A single value is compared with the constant 0 instead, the usual content of memory that
    was never written. Non-finite elements conform to a constant of their kind. Where a bound is
    infinite, every constant conforms.

    Of more than 2^20 elements, a fixed sample of that size is used. The share is then within 0.2 %
    of the exact one, and a few elements that differ from all others may be missed.

    Args:
        oracle: the expected output; floating, integer or bool.
        bound: float64, same shape; largest error that conforms.

    Returns:
        0 to 1.
    """
    values, reach = _sample(oracle, bound)
    return 1 - _find_best_constant(values, reach)[0] / values.numel() if values.numel() else 0.0


def find_vacuous_reason(oracle: torch.Tensor, bound: torch.Tensor, share: float) -> Vacuity | None:
    """Return why a conforming output is no evidence; None where it is conclusive.

    Args:
        oracle: as for :func:`compute_conclusive_share`.
        bound: as for :func:`compute_conclusive_share`.
        share: result of :func:`compute_conclusive_share`.
    """
    elements = oracle.numel()
    if is_conclusive(share, elements):
        return None
    values, reach = _sample(oracle, bound)
    if not len(values):
        return Vacuity(cause=VacuousCause.EMPTY, passing_elements=0)
    alike, constant = _find_best_constant(values, reach)
    constant = _find_recognizable_constant(values, reach, alike, constant)

    def suffices(selected: torch.Tensor) -> bool:
        """Whether the selected elements alone leave too few that could be conclusive."""
        return not is_conclusive(1 - int(selected.sum()) / len(values), elements)

    unjudged = reach.isinf() & values.isfinite()
    equal = values == constant if constant == constant else values.isnan()
    whole = elements / len(values)  # scales counts of a sample to all elements
    if suffices(unjudged):
        return Vacuity(
            cause=VacuousCause.INFINITE, passing_elements=round(int(unjudged.sum()) * whole)
        )
    if suffices(equal):
        cause = VacuousCause.EQUAL
    else:
        cause = VacuousCause.WIDE if suffices(values.abs() <= reach) else VacuousCause.SPREAD
    return Vacuity(cause=cause, passing_elements=round(alike * whole), constant=constant)


def _sample(oracle: torch.Tensor, bound: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    values, reach = oracle.flatten(), bound.flatten()
    if values.numel() > _SAMPLE:
        drawn = torch.randint(len(values), (_SAMPLE,), generator=torch.Generator().manual_seed(0))
        values, reach = values[drawn], reach[drawn]
    return values.double(), reach.double()


def _find_best_constant(values: torch.Tensor, reach: torch.Tensor) -> tuple[int, float]:
    """Return at how many elements the best constant conforms, and such a constant."""
    finite = values.isfinite()
    inside, bounds = values[finite], reach[finite]
    if len(values) == 1:
        if not finite.all():
            return 1, float(values)
        return _count_conforming(inside, bounds, 0.0), 0.0
    number, point = _find_most_covered(inside, bounds)
    anything = int(bounds.isinf().sum())  # conforms where there is no bound
    found = [
        (number, point),
        (int(values.isnan().sum()) + anything, torch.nan),
        (int((values == torch.inf).sum()) + anything, torch.inf),
        (int((values == -torch.inf).sum()) + anything, -torch.inf),
    ]
    return max(found, key=lambda each: each[0])


def _find_recognizable_constant(
    values: torch.Tensor, reach: torch.Tensor, number: int, point: float
) -> float:
    """Return an equally good constant that is easier to recognize: 0, or a value of the output."""
    if math.isnan(point):
        return point
    finite = values[values.isfinite()]
    candidates = [0.0, float(finite.mode().values)] if len(finite) else []
    found = (each for each in candidates if _count_conforming(values, reach, each) == number)
    return next(found, point)


def _count_conforming(values: torch.Tensor, reach: torch.Tensor, constant: float) -> int:
    """Count the elements whose bound contains a constant."""
    return int(((values - reach <= constant) & (constant <= values + reach)).sum())


def _find_most_covered(values: torch.Tensor, reach: torch.Tensor) -> tuple[int, float]:
    """Return the largest number of intervals ``values ± reach`` that share a point, and a point.

    Intervals are closed: an end counts after a beginning at the same place. Ends are searched
    among the sorted beginnings, O(n log n).
    """
    if values.numel() == 0:
        return 0, 0.0
    begins = (values - reach).sort().values
    ends = (values + reach).sort().values
    # At the k-th beginning, k + 1 intervals have begun; subtract the ones that ended before it.
    # Of equal beginnings the last counts all.
    ended = torch.searchsorted(ends, begins, side="left")
    number, at = (torch.arange(1, len(begins) + 1) - ended).max(0)
    return int(number), float(begins[at])
