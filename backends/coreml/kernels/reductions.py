"""Reductions.

Definitions: docstrings in coremltools ``mil/ops/defs/iOS15/reduction.py`` and
``iOS17/reduction.py``. Values: torch's reductions, which accumulate float16 in float32. Sums of
squares and of exponentials of float16 are computed in float32 and rounded once, as torch's norms
are. Results of integers that are no integers are rounded toward zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from backends.coreml.kernels.base import (
    Scalar,
    normalize_axes,
    normalize_axis,
    register_kernel,
    to_dtype,
    to_int,
    to_tensor,
)
from harness import ProgramError

_Reduction = Callable[[torch.Tensor, Sequence[int], bool], torch.Tensor]


def _widen(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.float32 if x.is_floating_point() else torch.float64)


def _sum(x: torch.Tensor, axes: Sequence[int], keep: bool) -> torch.Tensor:
    return torch.sum(x, list(axes), keep, dtype=x.dtype)


def _mean(x: torch.Tensor, axes: Sequence[int], keep: bool) -> torch.Tensor:
    if x.is_floating_point():
        return torch.mean(x, list(axes), keep)
    total = torch.sum(x, list(axes), keep, dtype=torch.int64)
    count = math.prod(x.shape[axis] for axis in axes)
    if not count:
        raise ProgramError("the mean of no elements is not an integer")
    return torch.div(total, count, rounding_mode="trunc")


def _product(x: torch.Tensor, axes: Sequence[int], keep: bool) -> torch.Tensor:
    # torch multiplies along one axis only; float16 would be rounded after each of them.
    rest = [axis for axis in range(x.dim()) if axis not in axes]
    joined = x.permute(*rest, *axes).flatten(len(rest))
    product = torch.prod(joined, -1, dtype=x.dtype)
    return (
        product.reshape([1 if i in axes else n for i, n in enumerate(x.shape)])
        if keep
        else (product)
    )


def _sum_of_squares(x: torch.Tensor, axes: Sequence[int], keep: bool) -> torch.Tensor:
    if not x.is_floating_point():
        return _sum(torch.square(x), axes, keep)
    return torch.sum(torch.square(_widen(x)), list(axes), keep)


def _log_sum_exp(x: torch.Tensor, axes: Sequence[int], keep: bool) -> torch.Tensor:
    return torch.logsumexp(_widen(x), list(axes), keep)


_REDUCTIONS: dict[str, _Reduction] = {
    "reduce_l1_norm": lambda x, axes, keep: _sum(torch.abs(x), axes, keep),
    "reduce_l2_norm": lambda x, axes, keep: torch.sqrt(_widen(_sum_of_squares(x, axes, keep))),
    "reduce_log_sum": lambda x, axes, keep: torch.log(_widen(_sum(x, axes, keep))),
    "reduce_log_sum_exp": _log_sum_exp,
    "reduce_max": lambda x, axes, keep: torch.amax(x, list(axes), keep),
    "reduce_mean": _mean,
    "reduce_min": lambda x, axes, keep: torch.amin(x, list(axes), keep),
    "reduce_prod": _product,
    "reduce_sum": _sum,
    "reduce_sum_square": _sum_of_squares,
}


def _register(name: str, reduction: _Reduction) -> None:
    @register_kernel(name)
    def kernel(x: torch.Tensor | Scalar, axes: Any = None, keep_dims: bool = False) -> torch.Tensor:
        value = to_tensor(x)
        numbers = normalize_axes(axes, value.dim())
        if not numbers:  # torch takes no axes as all axes; each element is reduced alone
            return reduction(value.unsqueeze(-1), [value.dim()], False).to(value.dtype)
        return reduction(value, numbers, bool(keep_dims)).to(value.dtype)


for _name, _reduction in _REDUCTIONS.items():
    _register(_name, _reduction)


def _register_argument(name: str, reduction: Callable[..., torch.Tensor]) -> None:
    @register_kernel(name)
    def kernel(
        x: torch.Tensor,
        axis: torch.Tensor | Scalar = -1,
        keep_dims: bool = False,
        output_dtype: str = "int32",
    ) -> torch.Tensor:
        number = normalize_axis(to_int(axis), x.dim())
        return reduction(x, number, bool(keep_dims)).to(to_dtype(output_dtype.lower()))


_register_argument("reduce_argmax", torch.argmax)
_register_argument("reduce_argmin", torch.argmin)
