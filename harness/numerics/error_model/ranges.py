"""Domains of functions, and functions whose usual formula leaves the range of a dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

from harness.numerics.error_model.terms import Args, Kwargs

_INF = math.inf

Interval: TypeAlias = tuple[float, float]
"""Both ends of a closed interval."""


def is_inside(x: torch.Tensor, interval: Interval) -> torch.Tensor:
    """Mark elements in the interval; bool."""
    return (x >= interval[0]) & (x <= interval[1])


def clamp_halfway(x: torch.Tensor, moved: torch.Tensor, interval: Interval) -> torch.Tensor:
    """Limit the perturbation of ``x``: an element moves at most half way to an end of the domain.

    Elements outside the domain move freely.

    Args:
        x: float64, before the perturbation.
        moved: the perturbed tensor.
        interval: the domain.
    """
    low, high = interval
    # Half way to an infinite end is infinite, too.
    clamped = moved.clamp((x + low) / 2, (x + high) / 2)
    return torch.where(is_inside(x, interval), clamped, moved)


@dataclass
class DtypeRange:
    """The range of a dtype; calling it rounds values beyond the range to infinity or zero.

    Attributes:
        largest: its greatest finite number.
        smallest: smaller magnitudes may become zero.
        was_exceeded: whether a value was out of the range; set by calls, reset by the caller.
    """

    largest: float = _INF
    smallest: float = 0.0
    was_exceeded: bool = field(default=False, compare=False)

    def narrow_to(self, dtype: torch.dtype) -> None:
        """Limit the range to the range of another dtype as well."""
        finfo = torch.finfo(dtype)
        # Hardware flushes subnormal numbers of float32 and bfloat16, which have the same range, to
        # zero, and rounds subnormal numbers of float16.
        flushed = finfo.tiny if dtype != torch.float16 else finfo.tiny * finfo.eps / 2
        self.largest = min(self.largest, finfo.max)
        self.smallest = max(self.smallest, flushed)

    def __call__(self, value: torch.Tensor) -> torch.Tensor:
        """Return the value as the dtype represents it: infinite above its range, zero below."""
        size = value.abs()
        if self._contains(size):
            return value
        over = (size > self.largest) & size.isfinite()
        under = (size < self.smallest) & (size > 0)
        if not bool((over | under).any()):
            return value
        self.was_exceeded = True
        return torch.where(over, value.sign() * _INF, torch.where(under, value * 0, value))

    def _contains(self, size: torch.Tensor) -> bool:
        """Whether all absolute values are finite, and in the range or zero. False where only an
        element-wise check can tell."""
        if not size.numel():
            return True
        least, most = map(float, size.aminmax())
        if not most <= self.largest:
            return False
        if least == 0 and self.smallest > 0:
            least = float(torch.where(size > 0, size, _INF).min())
        return least >= self.smallest


def limit_to(dtype: torch.dtype, values: torch.Tensor) -> torch.Tensor:
    """Return values as a dtype represents them: infinite above its range, zero below it."""
    to_range = DtypeRange()
    to_range.narrow_to(dtype)
    return to_range(values)


def apply_usual_formula(
    formula: Callable[..., torch.Tensor],
    to_range: DtypeRange,
    result: torch.Tensor,
    args: Args,
    kwargs: Kwargs,
) -> torch.Tensor:
    """Add the error of a function's usual formula where its intermediates leave the range.

    Args:
        formula: one of the functions below.
        to_range: the range.
        result: the exact result, float64.
        args: the function's arguments.
        kwargs: its keyword arguments.
    """
    to_range.was_exceeded = False
    # Integers and bools as well: sinh(True) is a float.
    args = tuple(item.double() if isinstance(item, torch.Tensor) else item for item in args)
    limited = formula(to_range, *args, **kwargs)
    if not to_range.was_exceeded:
        return result
    unlimited = formula(DtypeRange(), *args, **kwargs)
    differs = (limited != unlimited) & ~unlimited.isnan()
    return torch.where(differs, result + (limited - unlimited), result)


def cosh(keep: DtypeRange, x: torch.Tensor) -> torch.Tensor:
    """Compute cosh from an exponential."""
    return keep(x.abs().exp()) / 2


def sinh(keep: DtypeRange, x: torch.Tensor) -> torch.Tensor:
    """Compute sinh from an exponential."""
    return torch.where(x.abs() > 1, x.sign() * keep(x.abs().exp()) / 2, x.sinh())


def asinh(keep: DtypeRange, x: torch.Tensor) -> torch.Tensor:
    """Compute asinh from a square."""
    # Odd, so that only one side of it cancels; below 1 the formula is not used.
    size = x.abs()
    far = x.sign() * (size + keep(size * size + 1).sqrt()).log()
    return torch.where(size > 1, far, x.asinh())


def acosh(keep: DtypeRange, x: torch.Tensor) -> torch.Tensor:
    """Compute acosh from a square."""
    return (x + keep(x * x - 1).sqrt()).log()


def hypot(keep: DtypeRange, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Compute a hypotenuse from squares."""
    return keep(keep(x * x) + keep(y * y)).sqrt()


def norm(
    keep: DtypeRange,
    x: torch.Tensor,
    ord: float = 2,
    dim: Any = None,
    keepdim: bool = False,
    **_: Any,
) -> torch.Tensor:
    """Compute a vector norm from powers."""
    over = list(range(x.dim())) if dim is None else dim
    if ord in (0, 1) or math.isinf(ord):
        norm: torch.Tensor = torch.linalg.vector_norm(x, ord, over, keepdim)
        return norm
    powers = keep(x.abs() ** ord)
    return keep(powers.sum(over, keepdim)) ** (1 / ord)


def mean(
    keep: DtypeRange, x: torch.Tensor, dim: Any = None, keepdim: bool = False, **_: Any
) -> torch.Tensor:
    """Compute a mean from a sum."""
    over = dim if dim else list(range(x.dim()))
    total = x.sum(over, keepdim)
    return keep(total) * (total.numel() / max(1, x.numel()))


def logsumexp(keep: DtypeRange, x: torch.Tensor, dim: Any, keepdim: bool = False) -> torch.Tensor:
    """Compute a logsumexp from exponentials, without subtracting the maximum."""
    return keep(keep(x.exp()).sum(dim, keepdim)).log()


def log_sigmoid(keep: DtypeRange, x: torch.Tensor) -> torch.Tensor:
    """Compute a log sigmoid from an exponential."""
    return keep(1 / (1 + keep((-x).exp()))).log()
