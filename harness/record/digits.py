"""Two numbers in as many digits as tell them apart."""

from __future__ import annotations

import math

_FEWEST, _MOST = 4, 17  # 17 digits tell any two float64 apart
_FURTHER = 2  # than the first digit in which they differ


def apart(one: float, other: float) -> tuple[str, str]:
    """Both numbers in one number of significant digits, two more than make them differ.

    Equal numbers, and those of which one is not finite, come in four digits.
    """
    digits = _FEWEST
    if one != other and math.isfinite(one) and math.isfinite(other):
        while digits < _MOST and f"{one:.{digits}g}" == f"{other:.{digits}g}":
            digits += 1
        digits = min(max(digits, _first_difference(one, other) + _FURTHER), _MOST)
    return f"{one:.{digits}g}", f"{other:.{digits}g}"


def _first_difference(one: float, other: float) -> int:
    """The significant digits that the two have in common, about."""
    larger = max(abs(one), abs(other))
    return max(0, math.floor(math.log10(larger)) - math.floor(math.log10(abs(one - other))))
