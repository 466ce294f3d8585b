"""Make one case of each row of a pairwise covering array."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness import Case
from harness.model.registry import NIGHTLY
from harness.model.variations.covering import cover_pairs

PLAIN_SHARE = 10
"""A plain run has one of this many cases of a family."""

Row = dict[str, Any]
Allows = Callable[[Row], bool]


def find_rows(factors: Mapping[str, Sequence[Any]], allows: Allows) -> list[Row]:
    """Return rows in which every pair of values occurs that a valid row has.

    Args:
        factors: the values of each property, by its name.
        allows: whether a row is valid; it gets the values that are chosen so far.
    """
    names = list(factors)
    rows = cover_pairs(
        list(factors.values()), lambda chosen: allows(dict(zip(names, chosen, strict=False)))
    )
    return [dict(zip(names, row, strict=True)) for row in rows]


def cross(
    family: str,
    factors: Mapping[str, Sequence[Any]],
    allows: Allows,
    make: Callable[[str, Row], Case],
    targets: str,
    further: Sequence[Row] = (),
) -> list[Case]:
    """Return a case of each row: ``crossing_FAMILY/VALUE_VALUE_...``.

    Args:
        family: the operator or operators.
        factors: the values of each property, by its name; the values together name the case.
        allows: whether a row is valid; it gets the values that are chosen so far.
        make: makes a case of a name and a row.
        targets: globs over the targets, separated by ``|``.
        further: rows that matter although their pairs occur in others.
    """
    cases = []
    for place, row in enumerate([*find_rows(factors, allows), *further]):
        case = make(f"crossing_{family}/{'_'.join(map(str, row.values()))}", row)
        tags = case.tags | {"crossing"} | ({NIGHTLY} if place % PLAIN_SHARE else set())
        cases.append(replace(case, tags=tags, targets=targets))
    return cases
