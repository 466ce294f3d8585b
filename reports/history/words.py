"""Format values in the findings of a history, for terminal and Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from reports import text
from reports.outcome import CellOutcome

_BARS = "▁▂▃▄▅▆▇█"
#: Shown in a row of bars where nothing was conclusive.
NOTHING = "·"


def bars(values: Sequence[float | None]) -> str:
    """Draw one character per value, scaled to the largest; 0 is the lowest bar."""
    top = max((value for value in values if value), default=0)
    made = ""
    for value in values:
        if value is None:
            made += NOTHING
        elif not value:
            made += _BARS[0]
        else:
            # A value above zero is always higher than zero.
            made += _BARS[max(1, math.ceil(value / top * (len(_BARS) - 1)))]
    return made


def level(value: float, unit: str) -> str:
    """Format a level of a metric with its unit."""
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
    """Format the change of a level: in percent for times and sizes, else in its unit."""
    if unit in ("s", "B") and math.isfinite(ratio):
        return f"{100 * (ratio - 1):+.3g} %"
    if not math.isfinite(difference):
        return "to or from exact" if unit == "dB" else "∞"
    return f"{difference:+.3g} {unit}"


def commits(row: Mapping[str, Any], old: str, new: str) -> str:
    """Format a range of commits ``abc..def``: after the first, up to the second."""
    first, second = (text.line(str(row[name]), 12).removesuffix("…")[:10] for name in (old, new))
    local = ", local changes" if row["dirty"] else ""
    if first and first == second:
        return f"{second} (the same{local})"
    return f"{first or '(unknown)'}..{second or '(unknown)'}{f' ({local[2:]})' if local else ''}"


def outcomes(counts: Mapping[str, int]) -> str:
    """Format counts of outcomes: ``passed, delegated ×5, crashed ×1``."""
    named = [
        f"{CellOutcome(name).label if name != 'absent' else 'absent'} ×{number:,}"
        for name, number in counts.items()
    ]
    return ", ".join(named)
