"""What a wrong output looks like. An error with a shape tells where it comes from: a factor, an
offset, axes in another order, values one place further on, one channel, a coarser dtype.

A pattern is told only where it explains the whole output, every element of it within its bound;
where none does, nothing is said.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from harness.numerics.metrics.differences import errors

LARGEST = 2**24
"""Elements of an output in which a pattern is looked for."""

_FEWEST = 4  # through fewer elements too many functions pass
_AXES = 4  # 24 orders of them; of more, only two that change places
_FURTHEST = 3  # places by which values may have moved
_OWN = 2.0**-40
_COARSER = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def pattern(
    actual: torch.Tensor,
    oracle: torch.Tensor,
    bound: torch.Tensor,
    eager: torch.Tensor,
    others: torch.Tensor | None = None,
) -> str:
    """What explains the errors of a tensor, in a few words; empty where nothing does.

    Args:
        actual: what the target returned, with at least one element beyond its bound.
        oracle: what is exact, same shape.
        bound: float64, same shape; the largest error that conforms.
        eager: what eager returned, in the dtype of ``actual``.
        others: further values that conform, along a first dimension.
    """
    if not _FEWEST <= actual.numel() <= LARGEST:
        return ""
    wrong = ~errors(actual, oracle, bound, eager, others)[1].reshape(actual.shape)
    found = _Found(actual.double(), oracle.double(), bound.reshape(actual.shape), wrong)
    return next(filter(None, _explanations(found, actual.dtype)), "")


@dataclass(frozen=True)
class _Found:
    """An output in float64: what it is, should be, may differ by, and where it is wrong."""

    actual: torch.Tensor
    oracle: torch.Tensor
    bound: torch.Tensor
    wrong: torch.Tensor

    def explained_by(self, expected: torch.Tensor, reach: torch.Tensor | None = None) -> bool:
        """Whether all elements are what is said, as near as the bound is, or ``reach``."""
        reach = self.bound if reach is None else torch.maximum(reach, self.bound)
        off = (self.actual - expected).abs()
        return bool((off <= reach + expected.abs() * _OWN).all())

    def fits(self, expected: torch.Tensor, factor: float = 1.0) -> bool:
        """Whether what was fitted explains all, and leaves less than half of the errors: what
        hardly leaves its bound could be anything."""
        bounded = self.bound > 0
        used = ((self.actual - self.oracle).abs() / self.bound)[bounded]
        most = 0.5 * float(used.max()) if used.numel() else 0.0
        reach = torch.where(bounded, self.bound * min(most, max(1.0, abs(factor))), 0.0)
        off = (self.actual - expected).abs()
        return bool((off <= reach + expected.abs() * _OWN).all())

    def part(self, where: Any) -> _Found:
        """Some of the elements, as an index of tensors gives them."""
        return _Found(self.actual[where], self.oracle[where], self.bound[where], self.wrong[where])


def _explanations(found: _Found, dtype: torch.dtype) -> Iterator[str]:
    yield _not_finite(found)
    if not (found.actual.isfinite().all() and found.oracle.isfinite().all()):
        return
    yield _constant(found)
    if dtype is torch.bool:
        yield "negated" if found.wrong.all() else ""
    elif int(found.wrong.sum()) > 1:
        yield _negative(found)
        yield _reordered(found)
        yield _moved(found)
        yield _fitted(found)
        yield _rounded(found, dtype)
    yield _somewhere(found, dtype)


def _not_finite(found: _Found) -> str:
    """NaN or infinite, from an element on or throughout."""
    for name, is_so in (("NaN", torch.isnan), ("infinite", torch.isinf)):
        strange = is_so(found.actual) & found.wrong
        if not strange.any():
            continue
        flat = strange.flatten()
        first, number = int(flat.nonzero()[0]), int(flat.sum())
        if number == len(flat):
            return f"{name} everywhere"
        if number == len(flat) - first:
            return f"{name} from element {first:,} on (of {len(flat):,})"
        if place := _place(strange):
            return f"{name} {place}"
        return f"{name} in {number:,} of {len(flat):,} elements, the first of them {first:,}"
    return ""


def _constant(found: _Found) -> str:
    first = found.actual.flatten()[0]
    return f"{_short(float(first))} everywhere" if (found.actual == first).all() else ""


def _negative(found: _Found) -> str:
    return "with the other sign" if found.explained_by(-found.oracle) else ""


def _reordered(found: _Found) -> str:
    """The right values along other axes, or backwards along one."""
    oracle = found.oracle
    for order in _orders(oracle.dim()):
        other, reach = (each.permute(order).reshape(oracle.shape) for each in (oracle, found.bound))
        if found.explained_by(other, reach):
            return f"transposed: the values lie as if permuted by {tuple(order)}"
    for axis in range(oracle.dim()):
        if found.explained_by(oracle.flip(axis), found.bound.flip(axis)):
            return f"backwards along dim {axis}"
    return ""


def _orders(axes: int) -> Iterator[list[int]]:
    own = list(range(axes))
    if axes <= _AXES:
        yield from (list(order) for order in itertools.permutations(own) if list(order) != own)
        return
    for one, other in itertools.combinations(own, 2):
        order = list(own)
        order[one], order[other] = other, one
        yield order


def _moved(found: _Found) -> str:
    """The right values a few places further on along an axis, whatever came in at the end."""
    for axis, size in enumerate(found.oracle.shape):
        for places in range(1, min(_FURTHEST, size // 2) + 1):
            head = (slice(None),) * axis + (slice(None, -places),)
            tail = (slice(None),) * axis + (slice(places, None),)
            for here, there, sign in ((tail, head, "+"), (head, tail, "-")):
                part = found.part(here)
                # Where hardly anything is wrong, what is not moved would be explained, too.
                if 2 * part.wrong.sum() > part.wrong.numel() >= _FEWEST and part.explained_by(
                    found.oracle[there], found.bound[there]
                ):
                    return f"shifted by {sign}{places} along dim {axis}"
    return ""


def _fitted(found: _Found) -> str:
    """Multiplied by a factor, or with something added: the least squares in units of the bound."""
    actual, oracle = found.actual, found.oracle
    weight = found.bound.clamp_min(oracle.abs().max() * torch.finfo(torch.float64).eps) ** -2
    power = (weight * oracle * oracle).sum()
    factor = float((weight * actual * oracle).sum() / power) if power > 0 else 1.0
    if found.fits(factor * oracle, factor):
        return f"scaled by {_short(factor)}"
    offset = float((weight * (actual - oracle)).sum() / weight.sum())
    if found.fits(oracle + offset):
        return f"offset by {_short(offset)}"
    return ""


def _rounded(found: _Found, dtype: torch.dtype) -> str:
    """Every value is one of a coarser dtype, next to what it should be."""
    if not dtype.is_floating_point:
        return ""
    if found.explained_by(found.oracle.trunc()) and bool((found.actual.frac() == 0).all()):
        return "without what follows the point"
    for name, coarse in _COARSER.items():
        if torch.finfo(coarse).eps <= torch.finfo(dtype).eps:
            continue
        is_coarse = found.actual == found.actual.to(coarse).double()
        near = found.oracle.abs() * torch.finfo(coarse).eps + found.bound
        if is_coarse.all() and bool(((found.actual - found.oracle).abs() <= near).all()):
            return f"rounded to {name}"
    return ""


def _somewhere(found: _Found, dtype: torch.dtype) -> str:
    """All that is wrong lies in one place, and may have a pattern there."""
    place = _place(found.wrong)
    if not place:
        return ""
    there = found.part(found.wrong)
    if there.actual.numel() < _FEWEST or dtype is torch.bool:
        return f"wrong {place}"
    what = _constant(there) or _negative(there) or _fitted(there) or _rounded(there, dtype)
    return f"{what.removesuffix(' everywhere')} {place}" if what else f"wrong {place}"


def _place(wrong: torch.Tensor) -> str:
    """Where elements lie, more than one and not all: at one index of some axes, or from one on."""
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


def _short(value: float) -> str:
    """Enough digits that a factor of 1.001 does not read 1."""
    return f"{value:.4g}" if abs(value - 1) > 0.1 else f"{value:.7g}".rstrip()
