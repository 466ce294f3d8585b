"""Run discontinuous operators: a small error of an argument may change the result by a whole step.

Each operator passes its discontinuous part to ``mode.evaluate_discontinuous(function,
*arguments)``, so that a perturbed run takes either side that its arguments reach. Operators that
select elements ask ``mode.draw_tie_order`` for an order: perturbations do not separate equal
elements, and ATen does not define which of them it returns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class DiscontinuityMode:
    """Interface that the operators of this module need from a mode; perturbs nothing itself."""

    def evaluate_discontinuous(
        self, function: Callable[..., torch.Tensor], *arguments: Any
    ) -> torch.Tensor:
        """Evaluate ``function`` on the arguments as the target may see them."""
        return function(*arguments)

    def draw_tie_order(self, length: int) -> torch.Tensor | None:
        """Return an order in which to compare elements, int64; None for their own order."""
        return None

    def divide(self, dividend: Any, divisor: Any) -> torch.Tensor:
        """Compute a quotient as the target rounds it."""
        quotient: torch.Tensor = dividend / divisor
        return quotient

    def compute_remainder(self, dividend: Any, divisor: Any, whole: torch.Tensor) -> torch.Tensor:
        """Compute ``dividend - whole * divisor`` as the target rounds it."""
        remainder: torch.Tensor = dividend - whole * divisor
        return remainder


def may_be_discontinuous(func: Any, name: str) -> bool:
    """Whether any call of the operator is discontinuous."""
    if func._schema.is_mutable and not func._schema.name.endswith("_"):
        return False  # writes to ``out=``
    return name in NAMES or name in _BY_ARGUMENT


def is_discontinuous(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether this call is discontinuous in its arguments, or may select among equal elements.

    Args:
        func: overload for which :func:`may_be_discontinuous` is true.
        name: its base name.
        args: its arguments.
        kwargs: its keyword arguments.
    """
    if name in _SELECTIONS:
        has_dim = any(argument.name == "dim" for argument in func._schema.arguments)
        # A stable sort defines the order of equal elements.
        return has_dim and not kwargs.get("stable") and args[0].dim() > 0 and args[0].numel() > 0
    if not any(_is_float(item) for item in args):
        return False
    if name in ("_to_copy", "to"):
        dtype = kwargs.get("dtype")
        return dtype is not None and not dtype.is_floating_point and not dtype.is_complex
    if name == "div":
        return kwargs.get("rounding_mode") is not None
    return name in _STEPS


def run_discontinuous(
    mode: DiscontinuityMode, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run a call for which :func:`is_discontinuous` is true, on arguments as the target may see
    them.

    The result of an in-place operator is written to its argument.
    """
    if name in _SELECTIONS:
        return _select_elements(mode, func, args, kwargs)
    if name in _QUOTIENTS or name == "div":
        result = _divide(mode, name, args, kwargs)
    elif name == "frac":
        result = args[0] - mode.evaluate_discontinuous(torch.trunc, args[0])
    else:
        writes = func._schema.is_mutable

        def call(*given: Any) -> torch.Tensor:
            first = given[0].clone() if writes else given[0]
            return func(first, *given[1:], **kwargs)  # type: ignore[no-any-return]

        result = mode.evaluate_discontinuous(call, *args)
    return args[0].copy_(result) if func._schema.is_mutable else result


_SELECTIONS = frozenset(
    "argmax argmin max min topk sort argsort kthvalue median nanmedian mode".split()
)
# The rounding of the quotient, and whether the operator returns the remainder.
_QUOTIENTS = {
    "floor_divide": (torch.floor, False),
    "remainder": (torch.floor, True),
    "fmod": (torch.trunc, True),
}
_STEPS = frozenset(
    """
    floor ceil trunc round sign sgn frac lt le gt ge eq ne bucketize searchsorted heaviside
    floor_divide remainder fmod
    """.split()
)

NAMES = _STEPS | _SELECTIONS
"""Discontinuous operators, without conversions to integers and divisions with a rounding mode."""
_BY_ARGUMENT = frozenset(("_to_copy", "to", "div"))


def _divide(
    mode: DiscontinuityMode, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> torch.Tensor:
    """Compute the rounded quotient, or the remainder as ``x - y * floor(x / y)``: its error is a
    rounding of the product, which is as large as ``x``."""
    floor = torch.floor if kwargs.get("rounding_mode") == "floor" else torch.trunc
    function, is_remainder = _QUOTIENTS.get(name, (floor, False))
    dividend, divisor = args[:2]
    whole = mode.evaluate_discontinuous(function, mode.divide(dividend, divisor))
    return mode.compute_remainder(dividend, divisor, whole) if is_remainder else whole


def _select_elements(
    mode: DiscontinuityMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Return the indices of selected elements, and their values if the operator does."""
    names = [argument.name for argument in func._schema.arguments]
    given = {a.name: a.default_value for a in func._schema.arguments if a.has_default_value()}
    given.update(zip(names, args, strict=False))
    given.update(kwargs)
    x, dim = given.pop("self"), given.pop("dim")
    flat = dim is None  # of argmax and argmin
    along, axis = (x.flatten(), 0) if flat else (x, dim)
    order = mode.draw_tie_order(along.shape[axis])
    keepdim = given.pop("keepdim", None)
    if keepdim is not None:
        given["keepdim"] = True
    returns_values = len(func._schema.returns) > 1

    def select(values: torch.Tensor) -> torch.Tensor:
        shuffled = values if order is None else values.index_select(axis, order)
        result = func(shuffled, dim=axis, **given)
        indices: torch.Tensor = result[1] if returns_values else result
        return indices if order is None else order[indices]

    indices = mode.evaluate_discontinuous(select, along)
    values = along.gather(axis, indices) if returns_values else None
    if keepdim is False:
        indices = indices.squeeze(axis)
        values = None if values is None else values.squeeze(axis)
    elif keepdim and flat:
        indices = indices.reshape([1] * x.dim())
    return indices if values is None else (values, indices)


def _is_float(item: Any) -> bool:
    return isinstance(item, torch.Tensor) and item.is_floating_point()
