"""C++ arithmetic: conversions, operators and functions of numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

_BITS = {
    "int": 32,
    "long": 64,
    "size_t": 64,
    "uintptr_t": 64,
    **{f"{sign}int{bits}_t": bits for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


def convert(type_name: str, value: Any) -> Any:
    """Convert a number to a C++ type; return any other value unchanged."""
    if not isinstance(value, bool | int | float):
        return value
    name = type_name.replace("std ::", "").replace("std::", "").strip()
    if name == "bool":
        return bool(value)
    if name in ("float", "double"):
        return float(value)
    if name not in _BITS:
        return value
    bits = _BITS[name]
    number = int(value) & ((1 << bits) - 1)
    signed = name[0] in "il"
    return number - (1 << bits) if signed and number >> (bits - 1) else number


def divide(left: float, right: float) -> float:
    """Divide as C++ does: integers round towards zero."""
    if isinstance(left, float) or isinstance(right, float):
        return left / right
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def remainder(left: int, right: int) -> int:
    """Return the remainder as C++ does: with the sign of the left side."""
    return left - right * int(divide(left, right))


def _most(choose: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``std::max`` or ``std::min`` for two values or a list."""
    return lambda *values: choose(values[0] if len(values) == 1 else values)


UNARY: Mapping[str, Callable[[Any], Any]] = {
    "-": operator.neg,
    "+": operator.pos,
    "!": operator.not_,
    "~": operator.invert,
}
BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "|": operator.or_,
    "^": operator.xor,
    "&": operator.and_,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "<<": operator.lshift,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": divide,
    "%": remainder,
}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "c10::div_floor_integer": operator.floordiv,
    "c10::div_floor_floating": lambda left, right: float(math.floor(left / right)),
    # Like Python's remainder, it has the sign of the divisor.
    "c10::div_mod": operator.mod,
    "std::max": _most(max),
    "std::min": _most(min),
    "std::abs": abs,
    "std::pow": math.pow,
    "std::floor": lambda value: float(math.floor(value)),
    "std::ceil": lambda value: float(math.ceil(value)),
    "std::trunc": lambda value: float(math.trunc(value)),
    "std::lrint": round,
    "std::nearbyint": lambda value: float(round(value)),
    "std::sqrt": math.sqrt,
    "std::log2": math.log2,
    "std::numeric_limits::infinity": lambda: math.inf,
    "std::numeric_limits::quiet_NaN": lambda: math.nan,
}
"""C++ functions that take and return only numbers, by name."""
