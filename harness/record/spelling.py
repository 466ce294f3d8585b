"""Numbers as JSON can write them: infinities and NaN are words. Imports no torch."""

from __future__ import annotations

import math
from typing import Any

_SPELLED = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def spell_number(value: Any) -> Any:
    """A float that JSON cannot write as ``"inf"``, ``"-inf"`` or ``"nan"``; the rest as it is."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")


def read_number(value: Any) -> Any:
    """Inverse of :func:`spell_number`, where numbers stand; elsewhere "inf" is a word."""
    return _SPELLED.get(value, value) if isinstance(value, str) else value


def spell(value: Any) -> Any:
    """Plain data with every number spelled as JSON can write it (:func:`spell_number`)."""
    if isinstance(value, dict):
        return {key: spell(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [spell(item) for item in value]
    return spell_number(value)
