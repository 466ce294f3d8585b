"""How conclusive an output is: could a backend that ignores its inputs have returned it?"""

from __future__ import annotations

import math

import torch

from harness.record.evidence import Cause, Vacuity, is_conclusive

_SAMPLE = 2**20


def telling(oracle: torch.Tensor, bound: torch.Tensor) -> float:
    """The share of the elements that is conclusive: the best constant gets them wrong. 0 to 1.

    A constant conforms at an element when it lies within the bound of it; the best one lies within
    the bounds of the most elements. Zeros, constants, values below the normal range, saturated ones
    and bounds as wide as the values' spread all leave one constant that conforms everywhere: 0.
    A single value is compared with the constant 0 instead, which is what memory holds that nobody
    wrote to. Non-finite elements conform to a constant of their kind. Where a bound is infinite
    every constant conforms.

    Of more than 2^20 elements so many are drawn, always the same ones; the share is then within
    0.2 % of the whole's, and a few elements that differ from all others may go unseen.

    Args:
        oracle: what the output should be; floating, integer or bool.
        bound: float64, same shape; largest error that conforms.
    """
    values, reach = _sampled(oracle, bound)
    return 1 - _best(values, reach)[0] / values.numel() if values.numel() else 0.0


def vacuity(oracle: torch.Tensor, bound: torch.Tensor, share: float) -> Vacuity | None:
    """Why an output that conforms is no evidence; None where it is.

    Args:
        oracle: as for :func:`telling`.
        bound: as for :func:`telling`.
        share: what :func:`telling` returns.
    """
    elements = oracle.numel()
    if is_conclusive(share, elements):
        return None
    values, reach = _sampled(oracle, bound)
    if not len(values):
        return Vacuity(cause=Cause.EMPTY, alike=0)
    alike, constant = _best(values, reach)
    constant = _recognizable(values, reach, alike, constant)

    def suffices(among: torch.Tensor) -> bool:
        """Whether some elements alone leave too few that could be conclusive."""
        return not is_conclusive(1 - int(among.sum()) / len(values), elements)

    unjudged = reach.isinf() & values.isfinite()
    equal = values == constant if constant == constant else values.isnan()
    whole = elements / len(values)  # of a sample, what it says of all elements
    if suffices(unjudged):
        return Vacuity(cause=Cause.INFINITE, alike=round(int(unjudged.sum()) * whole))
    if suffices(equal):
        cause = Cause.EQUAL
    else:
        cause = Cause.WIDE if suffices(values.abs() <= reach) else Cause.SPREAD
    return Vacuity(cause=cause, alike=round(alike * whole), constant=constant)


def _sampled(oracle: torch.Tensor, bound: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    values, reach = oracle.flatten(), bound.flatten()
    if values.numel() > _SAMPLE:
        drawn = torch.randint(len(values), (_SAMPLE,), generator=torch.Generator().manual_seed(0))
        values, reach = values[drawn], reach[drawn]
    return values.double(), reach.double()


def _best(values: torch.Tensor, reach: torch.Tensor) -> tuple[int, float]:
    """At how many elements the best constant conforms, and such a constant."""
    finite = values.isfinite()
    inside, bounds = values[finite], reach[finite]
    if len(values) == 1:
        return (_conforming(inside, bounds, 0.0), 0.0) if finite.all() else (1, float(values))
    number, point = _most_covered(inside, bounds)
    anything = int(bounds.isinf().sum())  # conforms where there is no bound
    found = [
        (number, point),
        (int(values.isnan().sum()) + anything, torch.nan),
        (int((values == torch.inf).sum()) + anything, torch.inf),
        (int((values == -torch.inf).sum()) + anything, -torch.inf),
    ]
    return max(found, key=lambda each: each[0])


def _recognizable(values: torch.Tensor, reach: torch.Tensor, number: int, point: float) -> float:
    """A constant as good as the best that a reader recognizes: 0, or else a value of the output."""
    if math.isnan(point):
        return point
    finite = values[values.isfinite()]
    candidates = [0.0, float(finite.mode().values)] if len(finite) else []
    found = (each for each in candidates if _conforming(values, reach, each) == number)
    return next(found, point)


def _conforming(values: torch.Tensor, reach: torch.Tensor, constant: float) -> int:
    """At how many elements a constant lies within the bound."""
    return int(((values - reach <= constant) & (constant <= values + reach)).sum())


def _most_covered(values: torch.Tensor, reach: torch.Tensor) -> tuple[int, float]:
    """The largest number of the intervals ``values ± reach`` that share a point, and such a point.

    Intervals are closed, so an end counts after a beginning at the same place: ends are searched
    among the sorted beginnings, O(n log n).
    """
    if values.numel() == 0:
        return 0, 0.0
    begins = (values - reach).sort().values
    ends = (values + reach).sort().values
    # At the k-th beginning, k + 1 have begun; those that ended strictly before it are gone. Of
    # equal beginnings the last counts all.
    ended = torch.searchsorted(ends, begins, side="left")
    number, at = (torch.arange(1, len(begins) + 1) - ended).max(0)
    return int(number), float(begins[at])
