"""Numbers as text: infinities and NaN for JSON, and pairs of numbers with enough digits to differ.
Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

_SPELLED = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_FEWEST, _MOST = 4, 17  # 17 digits tell any two float64 apart
_FURTHER = 2  # than the first digit in which they differ


def spell_number(value: Any) -> Any:
    """A float that JSON cannot write as ``"inf"``, ``"-inf"`` or ``"nan"``; the rest as it is."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")


def read_number(value: Any) -> Any:
    """Inverse of :func:`spell_number`, where numbers stand; elsewhere "inf" is a word."""
    return _SPELLED.get(value, value) if isinstance(value, str) else value


def spell_numbers(value: Any) -> Any:
    """Plain data with every number spelled as JSON can write it (:func:`spell_number`)."""
    if isinstance(value, dict):
        return {key: spell_numbers(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [spell_numbers(item) for item in value]
    return spell_number(value)


def read_numbers(part: Any, text_fields: Collection[str]) -> None:
    """Read the numbers of a JSON object in place, except in fields of text: there "inf" is a word.

    Anything but an object stays as it is.
    """
    for key, value in part.items() if isinstance(part, dict) else ():
        if key not in text_fields:
            part[key] = read_number(value)


def format_apart(one: float, other: float) -> tuple[str, str]:
    """Write both numbers with the same number of significant digits, two more than make them
    differ.

    Equal numbers have four digits, as do pairs with a number that is not finite.
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
