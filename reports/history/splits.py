"""The best split of a series in two, on many series at once. Only numpy; see
:mod:`reports.history.changes` for the method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: z from which a split counts as a step.
THRESHOLD = 5.5
#: A place whose z² is at most this far below the largest may be the true one.
PLACE = 7.35
#: A step must last this many values; a shorter one counts as an outlier.
MIN_LENGTH = 3
_NARROW = 4 * MIN_LENGTH  # windows are not searched below this
# A bump shows in moving sums of half to all its length with at least this share of the z that a
# window around it gives.
_SCREEN = 0.65


@dataclass
class Series:
    """Series without their gaps: the values of each series come first.

    ``rows`` has the original row of each value, ``raw`` the value, ``smooth`` a running median.
    ``sigma`` is the noise of each series, and at least a quarter of ``floor``, the smallest step
    that matters.
    """

    rows: Ints
    raw: Floats
    smooth: Floats
    lengths: Ints
    sigma: Floats
    floor: float

    @classmethod
    def from_values(cls, values: Floats, floor: float) -> Series:
        """Make series of the columns of a table: rows in time order, NaN for missing values."""
        gone = np.isnan(values)
        rows = np.argsort(gone, axis=0, kind="stable")
        raw = np.take_along_axis(values, rows, axis=0)
        lengths = (~gone).sum(axis=0)
        steps = np.abs(np.diff(raw, axis=0))
        # NaN sort last, so the median of the values is at half their number.
        steps.sort(axis=0)
        steps = steps[((lengths - 1) // 2)[None, :], np.arange(raw.shape[1])[None, :]][0]
        sigma = np.maximum(1.4826 / np.sqrt(2) * steps, floor / 4)
        return cls(rows, raw, _compute_running_median(raw, lengths), lengths, sigma, floor)

    def ranges(self) -> Floats:
        """Largest minus smallest smoothed value of each series."""
        filled = np.isfinite(self.smooth)
        high = np.where(filled, self.smooth, -np.inf).max(axis=0)
        low = np.where(filled, self.smooth, np.inf).min(axis=0)
        difference: Floats = high - low
        return difference

    def take(self, kept: NDArray[np.bool_]) -> Series:
        """Select some of the series."""
        rows, raw, smooth = self.rows[:, kept], self.raw[:, kept], self.smooth[:, kept]
        return Series(rows, raw, smooth, self.lengths[kept], self.sigma[kept], self.floor)


def _compute_running_median(raw: Floats, lengths: Ints) -> Floats:
    """Median of each value and two on both sides; at an end, of the outer five values."""
    a, b, c, d, e = (raw[shift : len(raw) - 4 + shift] for shift in range(5))
    # The smaller and the larger middle of four values; with the fifth, the median of three.
    small = np.maximum(np.minimum(a, b), np.minimum(c, d))
    large = np.minimum(np.maximum(a, b), np.maximum(c, d))
    low, high = np.minimum(small, large), np.maximum(small, large)
    inner = np.maximum(low, np.minimum(high, e))
    centre = np.clip(np.arange(len(raw))[:, None], 2, lengths[None, :] - 3) - 2
    smooth: Floats = np.take_along_axis(inner, centre, axis=0)
    smooth[np.arange(len(raw))[:, None] >= lengths[None, :]] = np.nan
    return smooth


@dataclass
class Best:
    """The best split of some segments, counted from the start of each."""

    at: Ints
    score: Floats
    first: Ints  # smallest and largest split that may be the true one
    last: Ints


def best_split(many: Series, series: Ints, low: Ints, high: Ints) -> Best:
    """Find the split with the largest z in each segment ``[low, high)`` of a series."""
    size = (high - low)[None, :]
    places = np.arange(int(size.max()))[:, None]
    width = many.smooth.shape[1]
    where = np.minimum(low[None, :] + places, (high - 1)[None, :]) * width + series[None, :]
    values = many.smooth.reshape(-1).take(where)
    # Subtract the first value first, to keep precision for levels far from zero.
    values -= values[:1].copy()
    sums = np.cumsum(values, axis=0)
    before = places + 1.0
    total = sums[size[0] - 1, np.arange(len(series))][None, :]
    after = size - before
    allowed = (before >= MIN_LENGTH) & (after >= MIN_LENGTH)
    # z² is this times size / σ², which is the same for all splits of a segment.
    sums -= before * (total / size)
    sums *= sums
    sums *= allowed / np.where(allowed, before * after, 1.0)
    best = sums.argmax(axis=0)
    scale = size[0] / many.sigma[series] ** 2
    top = sums[best, np.arange(len(series))]
    near = allowed & (sums >= top - PLACE / scale)
    first, last = near.argmax(axis=0), len(near) - 1 - near[::-1].argmax(axis=0)
    return Best(best + 1, np.sqrt(top * scale), first + 1, last + 1)


def _find_uneven(many: Series) -> NDArray[np.bool_]:
    """Series in which two neighbouring windows differ so much that a shorter segment may show it.

    These moving sums cost little, and spare most series the search in windows.
    """
    filled = np.nan_to_num(many.smooth - many.smooth[:1])
    sums = np.vstack([np.zeros_like(filled[:1]), np.cumsum(filled, axis=0)])
    most = np.zeros(sums.shape[1])
    width = MIN_LENGTH
    while 2 * width < len(sums):
        gap = np.abs(sums[2 * width :] - 2 * sums[width:-width] + sums[: -2 * width])
        if many.lengths.min() < len(filled):
            gap[np.arange(2 * width, len(sums))[:, None] > many.lengths[None, :]] = 0
        np.maximum(most, gap.max(axis=0) / np.sqrt(2 * width), out=most)
        width *= 2
    return most >= _SCREEN * THRESHOLD * many.sigma


def search(many: Series) -> list[tuple[int, int]]:
    """Find candidates for steps, as pairs of series and place."""
    series = np.arange(len(many.lengths))
    low, high = np.zeros_like(many.lengths), many.lengths
    found: set[tuple[int, int]] = set()
    first = True
    while len(series):
        parts: list[tuple[Ints, Ints, Ints]] = []
        best = best_split(many, series, low, high)
        hit = best.score >= THRESHOLD
        split = low + best.at
        found.update(zip(series[hit].tolist(), split[hit].tolist(), strict=True))
        parts += [(series[hit], low[hit], split[hit]), (series[hit], split[hit], high[hit])]
        size = high - low
        wide = ~hit & (size >= 2 * _NARROW)
        if first:
            wide &= _find_uneven(many)
            first = False
        half, quarter = size // 2, size // 4
        for start in (np.zeros_like(size), quarter, size - half):
            begin = (low + start)[wide]
            parts.append((series[wide], begin, begin + half[wide]))
        series, low, high = (np.concatenate(part) for part in zip(*parts, strict=True))
        long = high - low >= 2 * MIN_LENGTH
        series, low, high = series[long], low[long], high[long]
    return sorted(found)
