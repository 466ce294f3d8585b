"""Where functions are defined, and where the usual formula of one leaves the range of a dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

_INF = math.inf
DOMAINS: dict[str, tuple[float, float]] = {
    "acos": (-1.0, 1.0),
    "acosh": (1.0, _INF),
    "asin": (-1.0, 1.0),
    "atanh": (-1.0, 1.0),
    "erfinv": (-1.0, 1.0),
    "log": (0.0, _INF),
    "log10": (0.0, _INF),
    "log1p": (-1.0, _INF),
    "log2": (0.0, _INF),
    "logit": (0.0, 1.0),
    "rsqrt": (0.0, _INF),
    "special_ndtri": (0.0, 1.0),
    "sqrt": (0.0, _INF),
}
"""The real interval, ends included, on which a function of one argument has real values."""


def domain(name: str, args: tuple[Any, ...]) -> tuple[float, float] | None:
    """The domain of a call's first argument, or None where that is everything."""
    if name == "pow" and len(args) > 1 and isinstance(args[1], float) and args[1] % 1:
        return (0.0, _INF)
    return DOMAINS.get(name)


def inside(x: torch.Tensor, interval: tuple[float, float]) -> torch.Tensor:
    """Which elements are in the interval; bool."""
    return (x >= interval[0]) & (x <= interval[1])


def halfway(x: torch.Tensor, moved: torch.Tensor, interval: tuple[float, float]) -> torch.Tensor:
    """``moved``, but for elements of ``x`` in the interval at most half way to its ends.

    Args:
        x: float64, before it was perturbed.
        moved: the same with noise.
        interval: the domain.
    """
    low, high = interval
    # Infinite ends: half way to them is infinite, too.
    kept = moved.clamp((x + low) / 2, (x + high) / 2)
    return torch.where(inside(x, interval), kept, moved)


@dataclass
class Range:
    """The numbers that a dtype has, and whether any value was beyond them.

    Attributes:
        largest: its greatest finite number.
        smallest: magnitudes below it may become zero.
        left: a value was out of the range since this was made.
    """

    largest: float = _INF
    smallest: float = 0.0
    left: bool = field(default=False, compare=False)

    def narrow(self, dtype: torch.dtype) -> None:
        """Count a dtype in; the narrowest range of all counts."""
        finfo = torch.finfo(dtype)
        # Hardware flushes numbers below the normal range of float32 and of bfloat16, which has
        # the same, to zero; those of float16 it rounds.
        flushed = finfo.tiny if dtype != torch.float16 else finfo.tiny * finfo.eps / 2
        self.largest = min(self.largest, finfo.max)
        self.smallest = max(self.smallest, flushed)

    def __call__(self, value: torch.Tensor) -> torch.Tensor:
        """The value as the dtype holds it: infinite beyond its range, zero below."""
        size = value.abs()
        if self._holds(size):
            return value
        over = (size > self.largest) & size.isfinite()
        under = (size < self.smallest) & (size > 0)
        if not bool((over | under).any()):
            return value
        self.left = True
        return torch.where(over, value.sign() * _INF, torch.where(under, value * 0, value))

    def _holds(self, size: torch.Tensor) -> bool:
        """Whether all of these absolute values are finite, and in the range or 0; False where that
        takes a closer look."""
        if not size.numel():
            return True
        least, most = map(float, size.aminmax())
        if not most <= self.largest:
            return False
        if least == 0 and self.smallest > 0:
            least = float(torch.where(size > 0, size, _INF).min())
        return least >= self.smallest


def usual(
    name: str,
    keep: Range,
    result: torch.Tensor,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> torch.Tensor:
    """A function's result, off by what its usual formula is when intermediates leave the range.

    Args:
        name: the function's base name.
        keep: the range.
        result: the result where nothing leaves it, float64.
        args: the function's arguments.
        kwargs: its arguments by name.
    """
    formula = _USUAL.get(name)
    if formula is None:
        return result
    keep.left = False
    # Of integers and bools, too: sinh(True) is a float.
    args = tuple(item.double() if isinstance(item, torch.Tensor) else item for item in args)
    held = formula(keep, *args, **kwargs)
    if not keep.left:
        return result
    unlimited = formula(Range(), *args, **kwargs)
    differs = (held != unlimited) & ~unlimited.isnan()
    return torch.where(differs, result + (held - unlimited), result)


def _cosh(keep: Range, x: torch.Tensor) -> torch.Tensor:
    return keep(x.abs().exp()) / 2


def _sinh(keep: Range, x: torch.Tensor) -> torch.Tensor:
    return torch.where(x.abs() > 1, x.sign() * keep(x.abs().exp()) / 2, x.sinh())


def _asinh(keep: Range, x: torch.Tensor) -> torch.Tensor:
    # Odd, so that only one side of it cancels; below 1 it is not computed so.
    size = x.abs()
    far = x.sign() * (size + keep(size * size + 1).sqrt()).log()
    return torch.where(size > 1, far, x.asinh())


def _acosh(keep: Range, x: torch.Tensor) -> torch.Tensor:
    return (x + keep(x * x - 1).sqrt()).log()


def _hypot(keep: Range, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return keep(keep(x * x) + keep(y * y)).sqrt()


def _norm(
    keep: Range, x: torch.Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, **_: Any
) -> torch.Tensor:
    over = list(range(x.dim())) if dim is None else dim
    if ord in (0, 1) or math.isinf(ord):
        norm: torch.Tensor = torch.linalg.vector_norm(x, ord, over, keepdim)
        return norm
    powers = keep(x.abs() ** ord)
    return keep(powers.sum(over, keepdim)) ** (1 / ord)


def _mean(
    keep: Range, x: torch.Tensor, dim: Any = None, keepdim: bool = False, **_: Any
) -> torch.Tensor:
    over = dim if dim else list(range(x.dim()))
    total = x.sum(over, keepdim)
    return keep(total) * (total.numel() / max(1, x.numel()))


def _logsumexp(keep: Range, x: torch.Tensor, dim: Any, keepdim: bool = False) -> torch.Tensor:
    # With the maximum taken out nothing leaves the range; without it, the result is infinite.
    return keep(keep(x.exp()).sum(dim, keepdim)).log()


def _log_sigmoid(keep: Range, x: torch.Tensor) -> torch.Tensor:
    return keep(1 / (1 + keep((-x).exp()))).log()


_USUAL: dict[str, Callable[..., torch.Tensor]] = {
    "acosh": _acosh,
    "asinh": _asinh,
    "cosh": _cosh,
    "hypot": _hypot,
    "linalg_vector_norm": _norm,
    "log_sigmoid_forward": _log_sigmoid,
    "logsumexp": _logsumexp,
    "mean": _mean,
    "sinh": _sinh,
}
