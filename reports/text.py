"""Format values for reports, each number with its unit."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from harness.record.cell import Numerics
from harness.record.number_text import format_apart

# Terminal escape sequences (colours, cursor moves, titles) that compilers put into messages.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
# Other characters that a terminal or a browser interprets: control characters, lone surrogates
# and marks that reverse the direction of text.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str, limit: int | None = None) -> str:
    """Remove escape sequences and control characters from text of a record.

    Args:
        text: any text.
        limit: cut to this many characters, with an ellipsis.
    """
    shown = text
    if not text.isprintable():  # as nearly all are
        shown = _CONTROLS.sub("\ufffd", _ESCAPES.sub("", text.replace("\r\n", "\n")))
    if limit is not None and len(shown) > limit:
        return shown[: max(limit - 1, 0)].rstrip() + "…"
    return shown


def line(text: str, limit: int | None = None) -> str:
    """:func:`clean`, on one line."""
    return clean(" ".join(clean(text).split()), limit)


def tail(text: str, limit: int) -> str:
    """The end of a long text; the end of a traceback has the error."""
    shown = clean(text).strip("\n")
    if len(shown) <= limit:
        return shown
    cut = shown[-limit:]
    cut = cut[cut.find("\n") + 1 :]
    return f"… ({len(shown) - len(cut):,} characters left out)\n{cut}"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """``1 cell``, ``1,204 cells``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def percent(part: int, whole: int) -> str:
    """A share, rounded down; it reads 100 % only if complete and 0 % only if nothing."""
    if whole <= 0:
        return "–"
    tenths = part * 1000 // whole
    if part and not tenths:
        return "< 0.1 %"
    return "100 %" if part == whole else ("0 %" if part == 0 else f"{tenths / 10:.1f} %")


def measure(value: float | None) -> str:
    """A dimensionless number, or a number in the unit of the outputs."""
    if value is None:
        return "–"
    return _nonfinite(value) or f"{value:.4g}"


def decibels(value: float | None) -> str:
    """A signal-to-noise ratio."""
    if value is None:
        return "–"
    return f"{_nonfinite(value) or f'{value:.1f}'} dB"


def ulps(value: float | None) -> str:
    """A distance in units in the last place."""
    if value is None:
        return "–"
    return f"{_nonfinite(value) or f'{value:.3g}'} ULP"


def bound_use(value: float | None) -> str:
    """Observed error / bound: at most 1× for an output that conforms."""
    if value is None:
        return "–"
    if math.isfinite(value) and value > 1:
        # Rounded up: 1.004 must not read "1.00× bound" beside a mismatch.
        digits = 2 if value < 100 else 0
        value = math.ceil(value * 10**digits) / 10**digits
        return f"{value:,.{digits}f}× bound" if value < 1e6 else f"{value:.2g}× bound"
    return f"{_nonfinite(value) or f'{value:.2g}'}× bound"


# From one year on, hours are rounded to two digits.
_LONGEST = 365 * 86_400.0


def seconds(value: float) -> str:
    """A duration in a readable unit."""
    if not math.isfinite(value):
        return f"{_nonfinite(value)} s"
    if value <= 0:
        return "0 s"
    if value < 1e-3:
        return f"{value * 1e6:.0f} µs"
    if value < 0.9995:
        return f"{value * 1e3:.3g} ms" if value < 0.0995 else f"{value * 1e3:.0f} ms"
    if value < 59.95:
        return f"{value:.1f} s"
    if value >= _LONGEST:
        return f"{value / 3600:.2g} h"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def size(value: int) -> str:
    """A number of bytes, in decimal units."""
    if value < 1000:
        return f"{value} B"
    for unit, scale in (("kB", 1e3), ("MB", 1e6)):
        if value < 999.5 * scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e9:,.3g} GB" if value < 999.5e9 else f"{value / 1e9:,.0f} GB"


def memory(value: int) -> str:
    """Memory of a process, in binary units."""
    unit, scale = next((each for each in _BINARY if value >= 999.5 * each[1] / 1024), _BINARY[-1])
    number = value / scale
    return f"{number:.3g} {unit}" if number < 999.5 else f"{number:,.0f} {unit}"


_BINARY = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def shape(sizes: Iterable[int]) -> str:
    """``[2, 3]``."""
    return f"[{', '.join(str(size) for size in sizes)}]"


def worst(item: Numerics) -> tuple[str, str, str] | None:
    """Index, actual and expected value of the element that uses most of its bound.

    The values have enough digits to differ. None if the output has no elements.
    """
    if item.worst_index is None or item.worst_actual is None or item.worst_expected is None:
        return None
    return (shape(item.worst_index), *format_apart(item.worst_actual, item.worst_expected))


def error_there(item: Numerics) -> float | None:
    """The error at the element that uses most of its bound; None if it is not known."""
    if item.worst_error is not None:
        return item.worst_error
    # Records of schema 3 and before have the two values.
    if item.worst_actual is None or item.worst_expected is None:
        return None
    same = item.worst_actual == item.worst_expected
    both = math.isnan(item.worst_actual) and math.isnan(item.worst_expected)
    return 0.0 if same or both else abs(item.worst_actual - item.worst_expected)


def output_use(item: Numerics) -> str:
    """As :func:`bound_use`, of an output. All errors together may use more of their limit than any
    element of its bound; the figure is then no quotient of the error and the bound beside it.
    """
    used, limit = bound_use(item.bound_used), item.rms_steps_limit
    together = item.rms_steps / limit if limit and item.rms_steps is not None else 0.0
    error = error_there(item)
    alone = error / item.bound if error is not None and item.bound > 0 else 0.0
    if together <= alone or together < item.bound_used:
        return used
    return used.replace("bound", "limit of all errors together")


def calls(ops: Mapping[str, int], limit: int = 8) -> str:
    """Operators with their number of calls, most called first: ``aten.mm ×3, aten.add ×1``."""
    items = by_count(ops)
    shown = ", ".join(f"{line(name, 80)} ×{number:,}" for name, number in items[:limit])
    more = f" and {count(len(items) - limit, 'more op')}" if len(items) > limit else ""
    return shown + more


def by_count(ops: Mapping[str, int]) -> list[tuple[str, int]]:
    """Operators with their number of calls, most called first, then by name."""
    return sorted(ops.items(), key=lambda item: (-item[1], item[0]))


def _nonfinite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return ""


def number_ranges(numbers: Iterable[int]) -> str:
    """Whole numbers as ranges: ``3-5, 9``."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)
