"""Describe the pattern of a wrong output's errors, which hints at the cause: a factor, an offset,
permuted axes, values shifted by a place, one channel, a coarser dtype.

A pattern is reported only where it explains the whole output, every element within its bound.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from harness.numerics.metrics.differences import compute_errors

LARGEST = 2**24
"""Largest number of elements of an output for which patterns are searched."""

_FEWEST = 4  # fewer elements fit too many patterns
_AXES = 4  # 24 orders of them; with more axes, only two are swapped
_FURTHEST = 3  # places by which values may have moved
_TOLERANCE = 2.0**-40
_COARSER = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def describe_pattern(
    actual: torch.Tensor,
    oracle: torch.Tensor,
    bound: torch.Tensor,
    eager: torch.Tensor,
    alternatives: torch.Tensor | None = None,
) -> str:
    """Describe the pattern that explains the errors of a tensor, in a few words; empty for none.

    Args:
        actual: output of the target, with at least one element beyond its bound.
        oracle: exact values, same shape.
        bound: float64, same shape; the largest error that conforms.
        eager: output of eager, in the dtype of ``actual``.
        alternatives: further values that conform, along a first dimension.
    """
    if not _FEWEST <= actual.numel() <= LARGEST:
        return ""
    within = compute_errors(actual, oracle, bound, eager, alternatives)[1]
    wrong = ~within.reshape(actual.shape)
    output = _WrongOutput(actual.double(), oracle.double(), bound.reshape(actual.shape), wrong)
    return next(filter(None, _describe_patterns(output, actual.dtype)), "")


@dataclass(frozen=True)
class _WrongOutput:
    """An output in float64, its oracle and bound, and which elements are wrong."""

    actual: torch.Tensor
    oracle: torch.Tensor
    bound: torch.Tensor
    wrong: torch.Tensor

    def is_explained_by(self, expected: torch.Tensor, reach: torch.Tensor | None = None) -> bool:
        """Whether all elements are within the bound, or ``reach``, of ``expected``."""
        reach = self.bound if reach is None else torch.maximum(reach, self.bound)
        off = (self.actual - expected).abs()
        return bool((off <= reach + expected.abs() * _TOLERANCE).all())

    def is_fitted_by(self, expected: torch.Tensor, factor: float = 1.0) -> bool:
        """Whether a fit explains all elements and leaves less than half of the errors.

        An error just beyond its bound would fit almost anything.
        """
        bounded = self.bound > 0
        used = ((self.actual - self.oracle).abs() / self.bound)[bounded]
        most = 0.5 * float(used.max()) if used.numel() else 0.0
        reach = torch.where(bounded, self.bound * min(most, max(1.0, abs(factor))), 0.0)
        off = (self.actual - expected).abs()
        return bool((off <= reach + expected.abs() * _TOLERANCE).all())

    def select(self, where: Any) -> _WrongOutput:
        """Return some of the elements; ``where`` indexes tensors."""
        return _WrongOutput(
            self.actual[where], self.oracle[where], self.bound[where], self.wrong[where]
        )


def _describe_patterns(output: _WrongOutput, dtype: torch.dtype) -> Iterator[str]:
    yield _describe_nonfinite(output)
    if not (output.actual.isfinite().all() and output.oracle.isfinite().all()):
        return
    yield _describe_constant(output)
    if dtype is torch.bool:
        yield "negated" if output.wrong.all() else ""
    elif int(output.wrong.sum()) > 1:
        yield _describe_negation(output)
        yield _describe_permutation(output)
        yield _describe_shift(output)
        yield _describe_fit(output)
        yield _describe_rounding(output, dtype)
    yield _describe_region(output, dtype)


def _describe_nonfinite(output: _WrongOutput) -> str:
    """NaN or infinite, from an element on or everywhere."""
    for name, is_so in (("NaN", torch.isnan), ("infinite", torch.isinf)):
        strange = is_so(output.actual) & output.wrong
        if not strange.any():
            continue
        flat = strange.flatten()
        first, number = int(flat.nonzero()[0]), int(flat.sum())
        if number == len(flat):
            return f"{name} everywhere"
        if number == len(flat) - first:
            return f"{name} from element {first:,} on (of {len(flat):,})"
        if place := _describe_place(strange):
            return f"{name} {place}"
        return f"{name} in {number:,} of {len(flat):,} elements, the first of them {first:,}"
    return ""


def _describe_constant(output: _WrongOutput) -> str:
    first = output.actual.flatten()[0]
    is_constant = (output.actual == first).all()
    return f"{_format_short(float(first))} everywhere" if is_constant else ""


def _describe_negation(output: _WrongOutput) -> str:
    return "with the other sign" if output.is_explained_by(-output.oracle) else ""


def _describe_permutation(output: _WrongOutput) -> str:
    """The right values with permuted axes, or backwards along one."""
    oracle = output.oracle
    for order in _iterate_orders(oracle.dim()):
        other, reach = (
            each.permute(order).reshape(oracle.shape) for each in (oracle, output.bound)
        )
        if output.is_explained_by(other, reach):
            return f"transposed: the values lie as if permuted by {tuple(order)}"
    for axis in range(oracle.dim()):
        if output.is_explained_by(oracle.flip(axis), output.bound.flip(axis)):
            return f"backwards along dim {axis}"
    return ""


def _iterate_orders(axes: int) -> Iterator[list[int]]:
    own = list(range(axes))
    if axes <= _AXES:
        yield from (list(order) for order in itertools.permutations(own) if list(order) != own)
        return
    for one, other in itertools.combinations(own, 2):
        order = list(own)
        order[one], order[other] = other, one
        yield order


def _describe_shift(output: _WrongOutput) -> str:
    """The right values a few places further along an axis, with any values at the end."""
    for axis, size in enumerate(output.oracle.shape):
        for places in range(1, min(_FURTHEST, size // 2) + 1):
            head = (slice(None),) * axis + (slice(None, -places),)
            tail = (slice(None),) * axis + (slice(places, None),)
            for here, there, sign in ((tail, head, "+"), (head, tail, "-")):
                part = output.select(here)
                # Unless most elements are wrong, an unmoved output would be explained as well.
                if 2 * part.wrong.sum() > part.wrong.numel() >= _FEWEST and part.is_explained_by(
                    output.oracle[there], output.bound[there]
                ):
                    return f"shifted by {sign}{places} along dim {axis}"
    return ""


def _describe_fit(output: _WrongOutput) -> str:
    """Scaled by a factor, or with an offset: least squares in units of the bound."""
    actual, oracle = output.actual, output.oracle
    weight = output.bound.clamp_min(oracle.abs().max() * torch.finfo(torch.float64).eps) ** -2
    power = (weight * oracle * oracle).sum()
    factor = float((weight * actual * oracle).sum() / power) if power > 0 else 1.0
    if output.is_fitted_by(factor * oracle, factor):
        return f"scaled by {_format_short(factor)}"
    offset = float((weight * (actual - oracle)).sum() / weight.sum())
    if output.is_fitted_by(oracle + offset):
        return f"offset by {_format_short(offset)}"
    return ""


def _describe_rounding(output: _WrongOutput, dtype: torch.dtype) -> str:
    """Every value is representable in a coarser dtype, and next to its oracle."""
    if not dtype.is_floating_point:
        return ""
    if output.is_explained_by(output.oracle.trunc()) and bool((output.actual.frac() == 0).all()):
        return "truncated to whole numbers"
    for name, coarse in _COARSER.items():
        if torch.finfo(coarse).eps <= torch.finfo(dtype).eps:
            continue
        is_coarse = output.actual == output.actual.to(coarse).double()
        near = output.oracle.abs() * torch.finfo(coarse).eps + output.bound
        if is_coarse.all() and bool(((output.actual - output.oracle).abs() <= near).all()):
            return f"rounded to {name}"
    return ""


def _describe_region(output: _WrongOutput, dtype: torch.dtype) -> str:
    """All wrong elements lie in one region, and may have a pattern there."""
    place = _describe_place(output.wrong)
    if not place:
        return ""
    there = output.select(output.wrong)
    if there.actual.numel() < _FEWEST or dtype is torch.bool:
        return f"wrong {place}"
    pattern = (
        _describe_constant(there)
        or _describe_negation(there)
        or _describe_fit(there)
        or _describe_rounding(there, dtype)
    )
    return f"{pattern.removesuffix(' everywhere')} {place}" if pattern else f"wrong {place}"


def _describe_place(wrong: torch.Tensor) -> str:
    """Describe where some, but not all, elements lie: at one index of some axes, or from one on."""
    number = int(wrong.sum())
    if number < 2 or number == wrong.numel():
        return ""
    at = wrong.nonzero()
    fixed = [
        axis
        for axis in range(wrong.dim())
        if wrong.shape[axis] > 1 and bool((at[:, axis] == at[0, axis]).all())
    ]
    if fixed:
        where = " and ".join(f"{int(at[0, axis])} of dim {axis}" for axis in fixed)
        return f"only at index {where}"
    for axis, size in enumerate(wrong.shape):
        low, high = int(at[:, axis].min()), int(at[:, axis].max())
        filled = number == (high - low + 1) * (wrong.numel() // size)
        if filled and (low > 0) != (high < size - 1):
            return (
                f"from index {low} of dim {axis} on" if low else f"up to index {high} of dim {axis}"
            )
    first = int(wrong.flatten().nonzero()[0])
    return f"from element {first:,} on" if number == wrong.numel() - first and first else ""


def _format_short(value: float) -> str:
    """Format with enough digits that a factor of 1.001 does not read 1."""
    return f"{value:.4g}" if abs(value - 1) > 0.1 else f"{value:.7g}".rstrip()
