"""The covering arrays of properties."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import pytest

from harness import Case
from harness.model.registry import NIGHTLY
from suites.crossings import dynamic, index, interface, shared, state, weights
from suites.crossings.build import PLAIN_SHARE, Allows, find_rows

_FAMILIES = [
    (each.FACTORS, each.allows, each.CASES)
    for each in (index, weights, interface, dynamic, state, shared)
]


@pytest.mark.parametrize(("factors", "allows", "cases"), _FAMILIES)
def test_every_pair_of_a_valid_row_occurs(
    factors: Mapping[str, Sequence[object]], allows: Allows, cases: list[Case]
) -> None:
    def pairs(row: Mapping[str, object]) -> set[object]:
        return set(itertools.combinations(row.items(), 2))

    rows = (
        dict(zip(factors, values, strict=True)) for values in itertools.product(*factors.values())
    )
    wanted = set().union(*(pairs(row) for row in rows if allows(row)))
    found = find_rows(factors, allows)
    assert all(allows(row) for row in found)
    assert set().union(*map(pairs, found)) == wanted
    assert len({case.name for case in cases}) == len(cases) >= len(found)


def test_a_plain_run_has_a_small_share() -> None:
    cases = [case for _, _, family in _FAMILIES for case in family]
    plain = [case for case in cases if NIGHTLY not in case.tags]
    assert len(cases) / (1.5 * PLAIN_SHARE) < len(plain) < len(cases) / (0.5 * PLAIN_SHARE)
