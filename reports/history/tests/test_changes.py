"""Step detection finds planted steps at their places, and no others."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from reports.history.changes import MIN_LENGTH, LevelChange, change_points

NIGHTS = 200


def found(values: object, floor: float = 0.2) -> list[LevelChange]:
    return change_points(np.array(values, dtype=float), floor)


def noise(series: int, *, seed: int = 1, size: float = 0.1, nights: int = NIGHTS) -> np.ndarray:
    return np.random.default_rng(seed).normal(3.0, size, (nights, series))


def step(at: int, size: float, nights: int = NIGHTS) -> np.ndarray:
    return size * (np.arange(nights)[:, None] >= at)


@pytest.mark.parametrize("at", [3, 4, 17, 100, 180, 196, 197])
@pytest.mark.parametrize("size", [-50.0, -1.0, 0.2, 1.0, 1e6])
def test_a_step_without_noise_is_found_at_its_run(at: int, size: float) -> None:
    (change,) = found(step(at, size))
    assert (change.last_before, change.first_after) == (at - 1, at)
    assert change.after - change.before == pytest.approx(size)
    assert (change.length, change.lasts) == (NIGHTS - at, True)


@pytest.mark.parametrize("at", [30, 100, 170])
@pytest.mark.parametrize("size", [-0.8, 0.3, 0.5, 2.0])
def test_the_range_of_a_step_in_noise_contains_it(at: int, size: float) -> None:
    changes = found(noise(200) + step(at, size))
    by_series = {change.series: change for change in changes}
    assert len(by_series) >= 196
    right = sum(change.last_before < at <= change.first_after for change in by_series.values())
    assert right >= 0.95 * len(by_series)
    assert len(changes) <= 1.02 * len(by_series)


@pytest.mark.parametrize("night", [NIGHTS - 3, NIGHTS - 2, NIGHTS - 1])
def test_a_step_is_reported_at_its_third_run(night: int) -> None:
    assert len(found(step(night, 5.0))) == (NIGHTS - night >= MIN_LENGTH)


@pytest.mark.parametrize("kind", ["normal", "uniform", "heavy", "lognormal"])
def test_noise_without_a_step_has_none(kind: str) -> None:
    choose = np.random.default_rng(4)
    shape = (NIGHTS, 2000)
    values = {
        "normal": choose.normal(0, 0.3, shape),
        "uniform": choose.uniform(-1, 1, shape),
        "heavy": 0.2 * choose.standard_t(4, shape),
        "lognormal": choose.lognormal(0, 0.3, shape),
    }[kind]
    assert found(values) == []


def test_values_that_jump_between_two_levels_are_no_step() -> None:
    flapping = np.random.default_rng(2).integers(0, 2, (NIGHTS, 100)).astype(float)
    assert found(flapping) == []


@pytest.mark.parametrize("size", [1.0, 1e9])
@pytest.mark.parametrize("width", [1, 2])
def test_outliers_are_no_step_and_do_not_hide_one(size: float, width: int) -> None:
    choose = np.random.default_rng(3)
    quiet, noisy = np.zeros((NIGHTS, 200)), noise(200, size=0.05)
    for values in (quiet, noisy):
        for series, at in enumerate(choose.integers(0, NIGHTS - 1, 200)):
            values[at : at + width, series] += size
        assert found(values) == []
    values = quiet + step(90, 3.0)
    changes = found(values)
    assert len(changes) == 200
    assert all(values[change.last_before, change.series] < 1.5 for change in changes)
    assert all(1.5 < values[change.first_after, change.series] < 4.5 for change in changes)
    # Outliers near the step belong to neither level, and widen the range.
    assert all(85 <= change.last_before < 90 <= change.first_after <= 92 for change in changes)


def test_several_steps_and_a_spike_are_distinguished() -> None:
    stairs = noise(50, size=0.05) + step(40, 1.0) + step(90, 0.5) - step(150, 2.0)
    for series in range(50):
        mine = [change for change in found(stairs) if change.series == series]
        assert [change.last_before for change in mine] == [39, 89, 149]
        assert [change.lasts for change in mine] == [False, False, True]
    bump = noise(50, size=0.05) + step(90, 1.0) - step(100, 1.0)
    changes = found(bump)
    assert len(changes) == 100
    assert {change.last_before for change in changes} == {89, 99}


@settings(max_examples=60, deadline=None)
@given(
    at=st.integers(6, 34),
    size=st.floats(0.5, 100).flatmap(lambda size: st.sampled_from([size, -size])),
    gone=st.sets(st.integers(0, 39), max_size=12),
    scale=st.sampled_from([1e-6, 1.0, 1e9]),
)
def test_missing_runs_and_units_do_not_move_a_step(
    at: int, size: float, gone: set[int], scale: float
) -> None:
    values = (7 + step(at, size, 40)) * scale
    values[sorted(gone)] = math.nan
    before = [night for night in range(at) if night not in gone]
    after = [night for night in range(at, 40) if night not in gone]
    changes = found(values, 0.2 * scale)
    if len(before) < MIN_LENGTH or len(after) < MIN_LENGTH:
        assert changes == []
        return
    (change,) = changes
    assert (change.last_before, change.first_after) == (before[-1], after[0])


def test_a_series_gives_the_same_alone_and_among_many() -> None:
    many = noise(700, nights=150) + step(60, 0.4, 150)
    many[5:9, ::3] = math.nan
    together = [change for change in found(many) if change.series in (0, 1, 699)]
    for series in (0, 1, 699):
        alone = found(many[:, [series]])
        mine = [change for change in together if change.series == series]
        assert [(c.last_before, c.first_after) for c in alone] == [
            (c.last_before, c.first_after) for c in mine
        ]


@pytest.mark.parametrize("values", [np.zeros((0, 3)), np.zeros((5, 0)), np.full((50, 2), np.nan)])
def test_nothing_in_nothing(values: np.ndarray) -> None:
    assert found(values) == []


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="not positive"):
        found(np.zeros((9, 1)), floor=0.0)
    with pytest.raises(ValueError, match="infinite"):
        found(np.full((9, 1), math.inf))
