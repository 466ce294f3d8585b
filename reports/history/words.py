"""How the findings of a history are spelled: shared by terminal and Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from reports import text
from reports.outcome import CellOutcome

_BARS = "▁▂▃▄▅▆▇█"
#: Stands in a row of bars where nothing was conclusive.
NOTHING = "·"


def bars(values: Sequence[float | None]) -> str:
    """A character a value, as high as the value is against the largest; 0 is the lowest bar."""
    top = max((value for value in values if value), default=0)
    made = ""
    for value in values:
        if value is None:
            made += NOTHING
        elif not value:
            made += _BARS[0]
        else:
            # The least that is not zero is seen, too.
            made += _BARS[max(1, math.ceil(value / top * (len(_BARS) - 1)))]
    return made


def level(value: float, unit: str) -> str:
    """A level of a metric with its unit."""
    if unit == "s":
        return text.seconds(value)
    if unit == "B":
        return text.size(round(value))
    if unit == "dB":
        return text.decibels(value)
    if unit == "× bound":
        return text.bound_use(value)
    return f"{value:g} {unit.removesuffix('s') if value == 1 else unit}"


def move(unit: str, difference: float, ratio: float) -> str:
    """How far a level moved: in percent where levels are compared so, else in the unit."""
    if unit in ("s", "B") and math.isfinite(ratio):
        return f"{100 * (ratio - 1):+.3g} %"
    if not math.isfinite(difference):
        return "to or from exact" if unit == "dB" else "∞"
    return f"{difference:+.3g} {unit}"


def commits(row: Mapping[str, Any], old: str, new: str) -> str:
    """``abc..def``: after the first, not later than the second."""
    first, second = (text.line(str(row[name]), 12).removesuffix("…")[:10] for name in (old, new))
    local = ", local changes" if row["dirty"] else ""
    if first and first == second:
        return f"{second} (the same{local})"
    return f"{first or '(unknown)'}..{second or '(unknown)'}{f' ({local[2:]})' if local else ''}"


def outcomes(counts: Mapping[str, int]) -> str:
    """``passed, delegated ×5, crashed ×1``."""
    named = [
        f"{CellOutcome(name).label if name != 'absent' else 'absent'} ×{number:,}"
        for name, number in counts.items()
    ]
    return ", ".join(named)
