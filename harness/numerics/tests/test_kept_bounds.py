"""Bounds equal the stored ones: no shortcut of the references widens or narrows them."""

from __future__ import annotations

import json

import pytest

from harness.numerics.tests import kept

BEFORE = json.loads(kept.FILE.read_text())


@pytest.mark.parametrize("name", [name for name in kept.CALLS if "large" not in name])
def test_a_small_bound_is_stored_exactly(name: str) -> None:
    assert kept.measure(kept.CALLS[name]) == pytest.approx(BEFORE[name], rel=1e-6)


@pytest.mark.parametrize("name", [name for name in kept.CALLS if "large" in name])
def test_a_large_bound_is_as_wide_as_the_stored_one(name: str) -> None:
    """Noise is drawn from a pool: single elements differ from the stored bound, not the mean."""
    found = kept.measure(kept.CALLS[name])
    assert found["mean"] == pytest.approx(BEFORE[name]["mean"], rel=0.02)
    assert found["largest"] < 1.25 * BEFORE[name]["largest"]


def test_every_bound_is_stored() -> None:
    assert set(BEFORE) == set(kept.CALLS)
