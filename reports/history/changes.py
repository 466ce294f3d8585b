"""Find changes of level in many series at once, with numpy.

A series is first passed through a running median of five, which removes one or two outliers in a
row and keeps the place of a lasting step. Then every split of a segment in two is tried, and

    z(k) = |mean after − mean before| / (σ √(1/before + 1/after))

is the square root of the log-likelihood ratio, times two, of a step after k values against none
(Hinkley, "Inference about the change-point in a sequence of random variables", Biometrika 57,
1970). σ is 1.4826 times the median of the absolute differences of neighbours, over √2: steps and
outliers do not enlarge it. The largest z counts as a step from ``THRESHOLD`` = 5.5 on, the
universal threshold √(2 ln N) of Donoho and Johnstone ("Ideal spatial adaptation by wavelet
shrinkage", Biometrika 81, 1994) for N = 4 million values, 400 runs of 10,000 cells: no noise
among them is expected to reach it. The threshold is constant, so that a cell has the same steps
alone and among others.

Halves of a segment are searched again. Where a segment has no step, shorter overlapping windows
are searched, since a bump in the middle cancels itself (the deterministic windows of Kovács et al.,
"Seeded binary segmentation", Biometrika 110, 2023). Every step is then placed again between
its neighbours.

The place of a step that is small against the noise is uncertain. Next to the true place 2 ln
of the likelihood ratio falls like a random walk with drift; its maximum is below c on both sides
with probability (1 − exp(−c/2))², so all k with z² within ``PLACE`` = 7.35 of the largest
contain it in 95 of 100 cases (Siegmund, "Confidence sets in change-point problems", International
Statistical Review 56, 1988).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from reports.history.splits import MIN_LENGTH, THRESHOLD, Floats, Ints, Series, best_split, search

_ROUNDS = 20
_SIDE = 0.75  # share of the values that must lie on their own side of the midpoint
_CHUNK = 60_000  # values processed at once; they fit in the cache of a processor


@dataclass(frozen=True)
class LevelChange:
    """A lasting change of level in one series.

    Attributes:
        series: the column.
        last_before: row of the last value that has the old level with certainty.
        first_after: row of the first value that has the new level with certainty.
        before: median of the values up to here, since the change before.
        after: median of the values from here to the next change.
        score: z, in standard deviations of the noise.
        length: number of values on the new level.
        lasts: whether no later change follows.
    """

    series: int
    last_before: int
    first_after: int
    before: float
    after: float
    score: float
    length: int
    lasts: bool


def change_points(values: Floats, floor: float) -> list[LevelChange]:
    """Find all changes of level, ordered by series and place.

    Args:
        values: rows × series, rows in time; NaN for a missing value. Finite otherwise.
        floor: smallest difference of levels that matters, in the unit of the values. A quarter
            of it is the least noise assumed, so that a series without any noise has steps too.

    Raises:
        ValueError: ``floor`` is not positive, or a value is infinite.
    """
    if not floor > 0:
        raise ValueError(f"the smallest step that matters is not positive: {floor}")
    if np.isinf(values).any():
        raise ValueError("a series has infinite values; cap them")
    found: list[LevelChange] = []
    width = max(1, _CHUNK // max(1, len(values)))
    for start in range(0, values.shape[1], width):
        found += _chunk(values[:, start : start + width], floor, start)
    return found


def _chunk(values: Floats, floor: float, offset: int) -> list[LevelChange]:
    there = ~np.isnan(values)
    # Most series vary less than the floor and have no step.
    low = np.where(there, values, np.inf).min(axis=0, initial=np.inf)
    high = np.where(there, values, -np.inf).max(axis=0, initial=-np.inf)
    chosen = np.flatnonzero((there.sum(axis=0) >= 2 * MIN_LENGTH) & (high - low >= floor))
    if not len(chosen):
        return []
    many = Series.from_values(values[:, chosen], floor)
    steady = many.ranges() >= floor
    if not steady.any():
        return []
    chosen, many = chosen[steady], many.take(steady)
    return _describe(many, _settle(many, search(many)), chosen + offset)


@dataclass(frozen=True)
class _Split:
    """A step between its neighbours, and the levels on both sides if it holds."""

    at: int
    score: float
    holds: bool
    last_before: int = 0
    first_after: int = 0
    before: float = 0.0
    after: float = 0.0
    length: int = 0


def _settle(many: Series, found: list[tuple[int, int]]) -> dict[int, list[_Split]]:
    """Place the steps of each series again between their neighbours until all hold.

    Two windows may have found the same step at different places. The weakest of neighbours that
    do not hold is removed, and the others are placed again.
    """
    places: dict[int, list[int]] = {}
    for series, at in found:
        places.setdefault(series, []).append(at)
    done: dict[int, list[_Split]] = {}
    for _ in range(_ROUNDS):
        if not places:
            break
        following: dict[int, list[int]] = {}
        for series, splits in _place_again(many, places).items():
            kept = sorted({split.at for split in _without_weakest(splits)})
            if kept != places[series]:
                if kept:
                    following[series] = kept
            else:
                done[series] = splits
        places = following
    return done


def _without_weakest(splits: list[_Split]) -> Iterator[_Split]:
    for place, split in enumerate(splits):
        beside = [splits[other] for other in (place - 1, place + 1) if 0 <= other < len(splits)]
        weaker = [other for other in beside if not other.holds and other.score < split.score]
        if split.holds or weaker:
            yield split


def _place_again(many: Series, places: dict[int, list[int]]) -> dict[int, list[_Split]]:
    """Place each step again between its neighbours; a step that does not hold keeps its place."""
    segments = [
        (series, begin, place, end)
        for series, at in places.items()
        for begin, place, end in zip(
            [0, *at[:-1]], at, [*at[1:], int(many.lengths[series])], strict=True
        )
    ]
    series, low, _, high = (np.array(part) for part in zip(*segments, strict=True))
    best = best_split(many, series, low, high)
    made: dict[int, list[_Split]] = {}
    for number, (column, begin, place, end) in enumerate(segments):
        score = float(best.score[number])
        split = None
        if score >= THRESHOLD:
            at, first, last = (int(part[number]) for part in (best.at, best.first, best.last))
            split = _levels(many, column, (begin, begin + at, end), begin + first, begin + last,
                            score)  # fmt: skip
        made.setdefault(column, []).append(split or _Split(place, score, holds=False))
    return made


def _levels(
    many: Series, column: int, borders: tuple[int, int, int], first: int, last: int, score: float
) -> _Split | None:
    low, at, high = borders
    values = many.raw[low:high, column]
    before, after = values[: at - low], values[at - low :]
    old, new = _median(before), _median(after)
    middle, up = (old + new) / 2, 1 if new > old else -1
    clear = min(np.mean((before - middle) * up < 0), np.mean((after - middle) * up > 0))
    if abs(new - old) < many.floor * (1 - 1e-9) or clear < _SIDE:
        return None
    # An outlier at the border belongs to neither level.
    near = abs(new - old) / 2
    start, end = first - 1 - low, last - low
    while start > 0 and abs(values[start] - old) > near:
        start -= 1
    while end < len(values) - 1 and abs(values[end] - new) > near:
        end += 1
    return _Split(at, score, True, low + start, low + end, old, new, high - at)


def _median(values: Floats) -> float:
    # np.median is several times slower for short series, and there may be 10,000.
    ordered = np.sort(values)
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _describe(many: Series, found: dict[int, list[_Split]], names: Ints) -> list[LevelChange]:
    return [
        LevelChange(
            series=int(names[column]),
            last_before=int(many.rows[split.last_before, column]),
            first_after=int(many.rows[split.first_after, column]),
            before=split.before,
            after=split.after,
            score=split.score,
            length=split.length,
            lasts=split is splits[-1],
        )
        for column, splits in sorted(found.items())
        for split in splits
    ]
