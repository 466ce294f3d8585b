"""How telling an output is: could a backend that ignores its inputs have returned it?"""

from __future__ import annotations

import torch

_SAMPLE = 2**20


def telling(oracle: torch.Tensor, bound: torch.Tensor) -> float:
    """The share of the elements that the best constant gets wrong, 0 to 1.

    A constant conforms at an element when it lies within the bound of it; the best one lies within
    the bounds of the most elements. Zeros, constants, values below the normal range, saturated ones
    and bounds as wide as the values' spread all leave one constant that conforms everywhere: 0.
    A single value is compared with the constant 0 instead, which is what memory holds that nobody
    wrote to. Non-finite elements conform to a constant of their kind.

    Of more than 2^20 elements so many are drawn, always the same ones; the share is then within
    0.2 % of the whole's, and a few elements that differ from all others may go unseen.

    Args:
        oracle: what the output should be; floating, integer or bool.
        bound: float64, same shape; largest error that conforms.
    """
    values, reach = oracle.flatten(), bound.flatten()
    if values.numel() > _SAMPLE:
        drawn = torch.randint(len(values), (_SAMPLE,), generator=torch.Generator().manual_seed(0))
        values, reach = values[drawn], reach[drawn]
    values, reach = values.double(), reach.double()
    if values.numel() == 0:
        return 0.0
    if values.numel() == 1:
        return float(values.isfinite().all() and bool((values.abs() > reach).all()))
    finite = values.isfinite()
    alike = max(
        int(values.isnan().sum()),
        int((values == torch.inf).sum()),
        int((values == -torch.inf).sum()),
        _most_covered(values[finite], reach[finite]),
    )
    return 1 - alike / values.numel()


def _most_covered(values: torch.Tensor, reach: torch.Tensor) -> int:
    """The largest number of the intervals ``values ± reach`` that share a point.

    Intervals are closed, so an end counts after a beginning at the same place: ends are searched
    among the sorted beginnings, O(n log n).
    """
    if values.numel() == 0:
        return 0
    begins = (values - reach).sort().values
    ends = (values + reach).sort().values
    # At the k-th beginning, k + 1 have begun; those that ended strictly before it are gone. Of
    # equal beginnings the last counts all.
    ended = torch.searchsorted(ends, begins, side="left")
    return int((torch.arange(1, len(begins) + 1) - ended).max())
