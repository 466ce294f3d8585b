"""ATen's own kernels, for functions that generated code calls and the runtime does not have.

Used only when execution continues after a violation. The argument order follows torch's
``torchgen/gen_aoti_c_shim.py``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch

_PREFIX = re.compile(r"aoti_torch_(?:mps_|cpu_)?")
_OPTIONAL = re.compile(r"Optional\[(.*)\]")


def aten_kernel(function: str) -> Callable[..., Any] | None:
    """Return a kernel that calls the ATen operator with the arguments of a C function.

    Args:
        function: name of the C function, such as ``aoti_torch_mps_cumsum``.

    Returns:
        None if no operator has that name.
    """
    operator = _operators().get(_PREFIX.sub("", function, count=1))
    return None if operator is None else functools.partial(_call, operator)


@functools.cache
def _operators() -> dict[str, Any]:
    """Return overloads of ATen by the C function's name: ``sort_stable``, ``cumsum``."""
    found = {}
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in getattr(packet, "overloads", list)():
            found[name if overload == "default" else f"{name}_{overload}"] = getattr(
                packet, overload
            )
    return found


def _call(operator: Any, *arguments: Any) -> Any:
    given = iter(arguments)
    schema = operator._schema
    # Out arguments come first.
    outs = {one.name: _taken(str(one.type), given) for one in schema.arguments if one.is_out}
    rest = [one for one in schema.arguments if not one.is_out]
    positional = [_taken(str(one.type), given, one.name) for one in rest if not one.kwarg_only]
    named = {one.name: _taken(str(one.type), given, one.name) for one in rest if one.kwarg_only}
    result = operator(*positional, **named, **outs)
    return () if outs else result


def _taken(kind: str, given: Iterator[Any], name: str = "") -> Any:
    """Read the next argument; an array is followed by its length, a device by its index."""
    optional = _OPTIONAL.fullmatch(kind)
    inner = optional[1] if optional else kind
    value = next(given)
    if inner.startswith("List["):
        next(given)
        return None if value is None else list(value)
    if name == "device":
        next(given)
        return None if value is None else torch.device("cpu")
    return value if value is None or inner != "bool" else bool(value)
