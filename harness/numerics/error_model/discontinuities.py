"""Operations that jump: the least error of an argument may move their result by a whole step.

Each is written with ``mode.jump(function, *arguments)`` around what jumps, so that a perturbed run
takes either side that its arguments reach. Operations that choose among elements take
``mode.order``: no noise tells equal elements apart, and which of them ATen returns is open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Jumping:
    """What a mode offers to the operations here; as it stands, nothing is perturbed."""

    def jump(self, function: Callable[..., torch.Tensor], *arguments: Any) -> torch.Tensor:
        """``function`` of the arguments as the target may see them."""
        return function(*arguments)

    def order(self, length: int) -> torch.Tensor | None:
        """An order in which elements are compared, int64; None for the one that they are in."""
        return None

    def divide(self, dividend: Any, divisor: Any) -> torch.Tensor:
        """A quotient as the target rounds it."""
        quotient: torch.Tensor = dividend / divisor
        return quotient

    def remain(self, dividend: Any, divisor: Any, whole: torch.Tensor) -> torch.Tensor:
        """What so many divisors leave of a dividend, as the target rounds it."""
        rest: torch.Tensor = dividend - whole * divisor
        return rest


def may_jump(func: Any, name: str) -> bool:
    """Whether any call of that operator jumps."""
    if func._schema.is_mutable and not func._schema.name.endswith("_"):
        return False  # writes to ``out=``
    return name in NAMES or name in _BY_ARGUMENT


def jumps(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether that call of an operator that may jump does as its arguments move, or may choose
    among equal elements."""
    if name in _CHOICES:
        has_dim = any(argument.name == "dim" for argument in func._schema.arguments)
        # The order of equal elements is defined where a sort is stable.
        return has_dim and not kwargs.get("stable") and args[0].dim() > 0 and args[0].numel() > 0
    if not any(_is_float(item) for item in args):
        return False
    if name in ("_to_copy", "to"):
        dtype = kwargs.get("dtype")
        return dtype is not None and not dtype.is_floating_point and not dtype.is_complex
    if name == "div":
        return kwargs.get("rounding_mode") is not None
    return name in _JUMPS


def run(mode: Jumping, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a call that :func:`jumps`, as the target may see its arguments.

    An operation that writes to its argument has its result written there.
    """
    if name in _CHOICES:
        return _choose(mode, func, args, kwargs)
    if name in _QUOTIENTS or name == "div":
        result = _divide(mode, name, args, kwargs)
    elif name == "frac":
        result = args[0] - mode.jump(torch.trunc, args[0])
    else:
        writes = func._schema.is_mutable

        def call(*given: Any) -> torch.Tensor:
            first = given[0].clone() if writes else given[0]
            return func(first, *given[1:], **kwargs)  # type: ignore[no-any-return]

        result = mode.jump(call, *args)
    return args[0].copy_(result) if func._schema.is_mutable else result


_CHOICES = frozenset(
    "argmax argmin max min topk sort argsort kthvalue median nanmedian mode".split()
)
# The number of whole divisors, and whether the operation returns what is left beside them.
_QUOTIENTS = {
    "floor_divide": (torch.floor, False),
    "remainder": (torch.floor, True),
    "fmod": (torch.trunc, True),
}
_JUMPS = frozenset(
    """
    floor ceil trunc round sign sgn frac lt le gt ge eq ne bucketize searchsorted heaviside
    floor_divide remainder fmod
    """.split()
)

NAMES = _JUMPS | _CHOICES
"""Operations that jump; conversions to integers and rounding divisions do, too."""
_BY_ARGUMENT = frozenset(("_to_copy", "to", "div"))


def _divide(
    mode: Jumping, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> torch.Tensor:
    """The whole divisors of a dividend, or what is left, as ``x - y * floor(x / y)``: that errs
    by a rounding of the product, which is as large as ``x``."""
    floor = torch.floor if kwargs.get("rounding_mode") == "floor" else torch.trunc
    function, leaves = _QUOTIENTS.get(name, (floor, False))
    dividend, divisor = args[:2]
    whole = mode.jump(function, mode.divide(dividend, divisor))
    return mode.remain(dividend, divisor, whole) if leaves else whole


def _choose(mode: Jumping, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Indices of what is chosen, and with them the values where the operation returns them."""
    names = [argument.name for argument in func._schema.arguments]
    given = {a.name: a.default_value for a in func._schema.arguments if a.has_default_value()}
    given.update(zip(names, args, strict=False))
    given.update(kwargs)
    x, dim = given.pop("self"), given.pop("dim")
    flat = dim is None  # of argmax and argmin
    along, axis = (x.flatten(), 0) if flat else (x, dim)
    order = mode.order(along.shape[axis])
    keeps = given.pop("keepdim", None)
    if keeps is not None:
        given["keepdim"] = True
    several = len(func._schema.returns) > 1

    def choose(values: torch.Tensor) -> torch.Tensor:
        shuffled = values if order is None else values.index_select(axis, order)
        result = func(shuffled, dim=axis, **given)
        indices: torch.Tensor = result[1] if several else result
        return indices if order is None else order[indices]

    indices = mode.jump(choose, along)
    values = along.gather(axis, indices) if several else None
    if keeps is False:
        indices = indices.squeeze(axis)
        values = None if values is None else values.squeeze(axis)
    elif keeps and flat:
        indices = indices.reshape([1] * x.dim())
    return indices if values is None else (values, indices)


def _is_float(item: Any) -> bool:
    return isinstance(item, torch.Tensor) and item.is_floating_point()
