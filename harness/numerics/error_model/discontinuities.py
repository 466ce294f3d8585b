"""Run discontinuous operators: a small error of an argument may change the result by a whole step.

Each operator passes its discontinuous part to ``mode.evaluate_discontinuous(func, function,
*arguments)``, so that a perturbed run takes either side that its arguments reach. Operators that
select elements ask ``mode.draw_tie_order`` for an order: perturbations do not separate equal
elements, and ATen does not define which of them it returns.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from harness.numerics.error_model.terms import Args, Kwargs
from harness.vendors.torch import TorchDispatchMode


class DiscontinuityMode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """Interface that the operators of this module need from a mode; perturbs nothing itself.

    Operations inside the mode round as the target rounds them.
    """

    def evaluate_discontinuous(
        self, func: Any, function: Callable[..., torch.Tensor], *arguments: Any
    ) -> torch.Tensor:
        """Evaluate ``function``, the discontinuous part of an overload, on the arguments as the
        target may see them."""
        return function(*arguments)

    def draw_tie_order(self, length: int) -> torch.Tensor | None:
        """Return an order in which to compare elements, int64; None for their own order."""
        return None


@dataclass(frozen=True)
class Jump:
    """How the result of an operator may change by a whole step.

    Attributes:
        applies: whether a call is discontinuous in its arguments, or may select among equal
            elements; takes the overload and the arguments.
        run: runs such a call on arguments as the target may see them, and writes to none; takes
            the mode, the overload and the arguments.
    """

    applies: Callable[[Any, Args, Kwargs], bool]
    run: Callable[[DiscontinuityMode, Any, Args, Kwargs], Any]


def _has_float(func: Any, args: Args, kwargs: Kwargs) -> bool:
    return any(isinstance(item, torch.Tensor) and item.is_floating_point() for item in args)


def _is_to_integer(func: Any, args: Args, kwargs: Kwargs) -> bool:
    dtype = kwargs.get("dtype")
    is_integer = dtype is not None and not dtype.is_floating_point and not dtype.is_complex
    return is_integer and _has_float(func, args, kwargs)


def _is_rounded_quotient(func: Any, args: Args, kwargs: Kwargs) -> bool:
    return kwargs.get("rounding_mode") is not None and _has_float(func, args, kwargs)


def _selects(func: Any, args: Args, kwargs: Kwargs) -> bool:
    has_dim = any(argument.name == "dim" for argument in func._schema.arguments)
    # A stable sort defines the order of equal elements.
    return has_dim and not kwargs.get("stable") and args[0].dim() > 0 and args[0].numel() > 0


def _step(mode: DiscontinuityMode, func: Any, args: Args, kwargs: Kwargs) -> torch.Tensor:
    writes = func._schema.is_mutable

    def call(*given: Any) -> torch.Tensor:
        first = given[0].clone() if writes else given[0]
        return func(first, *given[1:], **kwargs)  # type: ignore[no-any-return]

    return mode.evaluate_discontinuous(func, call, *args)


def _take_fraction(mode: DiscontinuityMode, func: Any, args: Args, kwargs: Kwargs) -> torch.Tensor:
    fraction: torch.Tensor = args[0] - mode.evaluate_discontinuous(func, torch.trunc, args[0])
    return fraction


def _divide(
    mode: DiscontinuityMode,
    func: Any,
    args: Args,
    kwargs: Kwargs,
    *,
    function: Callable[..., torch.Tensor] | None = None,
    is_remainder: bool = False,
) -> torch.Tensor:
    """Compute the rounded quotient, or the remainder as ``x - y * floor(x / y)``: its error is a
    rounding of the product, which is as large as ``x``."""
    if function is None:
        function = torch.floor if kwargs["rounding_mode"] == "floor" else torch.trunc
    dividend, divisor = args[:2]
    with mode:
        quotient = dividend / divisor
    whole = mode.evaluate_discontinuous(func, function, quotient)
    if not is_remainder:
        return whole
    with mode:
        return dividend - whole * divisor  # type: ignore[no-any-return]


def _select_elements(mode: DiscontinuityMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
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

    indices = mode.evaluate_discontinuous(func, select, along)
    values = along.gather(axis, indices) if returns_values else None
    if keepdim is False:
        indices = indices.squeeze(axis)
        values = None if values is None else values.squeeze(axis)
    elif keepdim and flat:
        indices = indices.reshape([1] * x.dim())
    return indices if values is None else (values, indices)


STEP = Jump(_has_float, _step)
FRACTION = Jump(_has_float, _take_fraction)
FLOOR_QUOTIENT = Jump(_has_float, functools.partial(_divide, function=torch.floor))
REMAINDER = Jump(_has_float, functools.partial(_divide, function=torch.floor, is_remainder=True))
FMOD = Jump(_has_float, functools.partial(_divide, function=torch.trunc, is_remainder=True))
ROUNDED_QUOTIENT = Jump(_is_rounded_quotient, _divide)
TO_INTEGER = Jump(_is_to_integer, _step)
SELECTION = Jump(_selects, _select_elements)
