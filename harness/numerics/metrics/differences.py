"""Compute how a tensor differs from its reference, in parts, so that no part needs a full copy.

Every figure is defined for every tensor (docs/numerics.md has the table): none raises, and none
hides a NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from harness.numerics.bounds import match_values

# The exponent bits of a float64.
_EXPONENT = 0x7FF0_0000_0000_0000
# The least number above 1.
_BEYOND = 1 + 2.0**-52
# Elements that are processed together; they fit into a cache.
_PART = 2**17


@dataclass
class ErrorSummary:
    """Errors of a tensor against its bound.

    Attributes:
        elements: number of elements.
        exceeding: number of elements that do not conform.
        max_abs: the largest error.
        sum_abs: the sum of all errors.
        max_ulp: the largest error in units of the last place of the oracle, in the tensor's dtype;
            None for integers and bools. Below the normal range the unit is that of the smallest
            normal number.
        worst: flat index of the element that uses most of its bound; None for an empty tensor.
        bound_used: its error as a share of its bound; infinite for any error where the bound is
            zero.
        worst_error: its error.
    """

    elements: int = 0
    exceeding: int = 0
    max_abs: float = 0.0
    sum_abs: float = 0.0
    max_ulp: float | None = None
    worst: int | None = None
    bound_used: float = 0.0
    worst_error: float = 0.0

    @property
    def mean_abs(self) -> float:
        """The mean error; 0 for an empty tensor."""
        return self.sum_abs / self.elements if self.elements else 0.0

    @classmethod
    def from_tensors(
        cls,
        actual: torch.Tensor,
        oracle: torch.Tensor,
        bound: torch.Tensor,
        eager: torch.Tensor,
        alternatives: torch.Tensor | None = None,
    ) -> ErrorSummary:
        """Sum up the errors of a tensor; arguments as for :func:`compute_errors`."""
        summary = cls(max_ulp=0.0 if actual.is_floating_point() else None)
        flat = None if alternatives is None else alternatives.reshape(len(alternatives), -1)
        for start, (value, truth, limit, native) in iterate_parts(actual, oracle, bound, eager):
            choice = None if flat is None else flat[:, start : start + _PART]
            errors = compute_errors(value, truth, limit, native, choice)
            summary._add(start, value, truth, *errors, limit)
        return summary

    def _add(
        self,
        start: int,
        value: torch.Tensor,
        truth: torch.Tensor,
        error: torch.Tensor,
        within: torch.Tensor,
        bound: torch.Tensor,
    ) -> None:
        self.elements += len(value)
        self.exceeding += int((~within).sum())
        self.max_abs = max(self.max_abs, float(error.max()))
        self.sum_abs += float(error.sum())
        used = _compute_bound_used(error, bound, within)
        most = int(used.argmax())
        if self.worst is None or float(used[most]) > self.bound_used:
            self.worst, self.bound_used = start + most, float(used[most])
            self.worst_error = float(error[most])
        if self.max_ulp is not None:
            finfo = torch.finfo(value.dtype)
            size = truth.double().abs()
            if not _is_all_finite(size):
                size.nan_to_num_(nan=1.0, posinf=finfo.max)
            size.clamp_min_(finfo.tiny).view(torch.int64).bitwise_and_(_EXPONENT)
            self.max_ulp = max(self.max_ulp, float((error / size.mul_(finfo.eps)).max()))


def compute_largest_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the largest of the :func:`compute_errors` of two tensors of one dtype; 0 if empty."""
    largest, unbounded = 0.0, torch.tensor(math.inf, dtype=torch.float64)
    for _, (value, native) in iterate_parts(actual, expected):
        error, _ = compute_errors(value, native.double(), unbounded, native)
        largest = max(largest, float(error.max()))
    return largest


def compute_errors(
    actual: torch.Tensor,
    oracle: torch.Tensor,
    bound: torch.Tensor,
    eager: torch.Tensor,
    alternatives: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return absolute errors (float64) and which elements conform.

    Two finite values conform when they differ by at most the bound. A non-finite value conforms
    when it is the same infinity, or also NaN, in the oracle rounded to the output's dtype or in
    eager: an intermediate may overflow in the dtype although the result would not. Its error is
    then 0; any other error with a non-finite value is infinite. Where the bound of a finite value
    is infinite, there is no estimate, and every value conforms, non-finite ones included.

    Integers and bools conform when they match the oracle or ``alternatives``, and so do infinities
    among the alternatives. Where float64 cannot represent the difference, beyond 2^53, the error
    is 1.

    Args:
        actual: output of the target.
        oracle: exact values, same shape.
        bound: float64, same shape; the largest error that conforms.
        eager: output of eager, in the dtype of ``actual``.
        alternatives: further values that conform, along a first dimension.
    """
    if not actual.is_floating_point():
        error = (actual.double() - oracle.double()).abs()
        error = torch.where(actual == oracle, 0.0, error.clamp_min(1.0))
        return error, match_values(actual, oracle, alternatives)
    value = actual.double()
    truth = oracle.double()
    if _is_all_finite(value) and _is_all_finite(truth):
        error = (value - truth).abs_()
        return error, error <= bound
    rounded = truth.to(actual.dtype).double()
    error = (value - truth).abs()
    finite = value.isfinite() & truth.isfinite()
    same = _is_same_nonfinite(value, rounded) | _is_same_nonfinite(value, eager.double())
    if alternatives is not None:
        same |= value.isinf() & match_values(value, truth, alternatives)
    same |= is_unbounded(truth, bound) & ~value.isfinite()
    error = torch.where(finite, error, math.inf)
    error = torch.where(same, 0.0, error)
    return error, (finite & (error <= bound)) | same


def is_unbounded(oracle: torch.Tensor, bound: torch.Tensor) -> torch.Tensor:
    """Mark elements without a verdict: the oracle is finite and the bound is infinite."""
    return bound.isinf() & oracle.isfinite()


@dataclass
class Difference:
    """Sums over the elements of two tensors, and similarity metrics from them.

    Elements where both are the same non-finite value are left out, and so are non-finite values
    whose bound is infinite.

    Attributes:
        noise: Σ(a-r)².
        signal: Σr².
        power: Σa².
        product: Σa·r.
        comparable: the shapes are the same, and no other value is non-finite.
    """

    noise: float = 0.0
    signal: float = 0.0
    power: float = 0.0
    product: float = 0.0
    comparable: bool = True

    @classmethod
    def from_tensors(
        cls, actual: torch.Tensor, reference: torch.Tensor, bound: torch.Tensor | None = None
    ) -> Difference:
        """Sum up two tensors.

        Args:
            actual: output of the target, ``a``.
            reference: its reference, ``r``.
            bound: the bounds; where one is infinite, a non-finite value is left out.
        """
        difference = cls(comparable=actual.numel() == reference.numel())
        if difference.comparable:
            limits = [] if bound is None or _is_all_finite(bound) else [bound]
            for _, (a, r, *limit) in iterate_parts(actual, reference, *limits):
                if limit:
                    judged = a.double().isfinite() | ~is_unbounded(r, limit[0])
                    a, r = a[judged], r[judged]
                if len(a):
                    difference._add(a, r)
        return difference

    def _add(self, actual: torch.Tensor, reference: torch.Tensor) -> None:
        a, r = actual.double(), reference.double()
        largest = _get_largest(actual.dtype)
        if not (_is_all_finite(a) and _is_all_finite(r)) or float(r.abs().max()) > largest:
            r = torch.where(r.abs() > largest, r.sign() * math.inf, r)
            both = a.isfinite() & r.isfinite()
            self.comparable = self.comparable and bool((both | _is_same_nonfinite(a, r)).all())
            a, r = a[both], r[both]
        off = a - r
        self.noise += float(off @ off)
        self.signal += float(r @ r)
        self.power += float(a @ a)
        self.product += float(a @ r)

    @property
    def sqnr_db(self) -> float:
        """Signal to quantization noise ratio, 10·log10(Σr² / Σ(a-r)²), in dB.

        Equal tensors (empty ones too) give inf. A zero reference of a nonzero output gives -inf,
        and so do tensors that cannot be compared.
        """
        if not self.comparable:
            return -math.inf
        if self.noise == 0:
            return math.inf
        return -math.inf if self.signal == 0 else 10 * math.log10(self.signal / self.noise)

    @property
    def relative_frobenius(self) -> float:
        """‖a-r‖ / ‖r‖; 0 when equal, inf when only the reference is zero."""
        if not self.comparable:
            return math.inf
        if self.noise == 0:
            return 0.0
        return math.inf if self.signal == 0 else math.sqrt(self.noise / self.signal)

    @property
    def cosine(self) -> float:
        """Cosine similarity of the flattened tensors; 1 when both are zero or empty, 0 when one
        is zero or holds a non-finite value that the other does not."""
        if not self.comparable:
            return 0.0
        if self.noise == 0:
            return 1.0
        norms = math.sqrt(self.power) * math.sqrt(self.signal)
        return max(-1.0, min(1.0, self.product / norms)) if norms else 0.0


def iterate_parts(*tensors: torch.Tensor) -> Iterator[tuple[int, list[torch.Tensor]]]:
    """Yield flat parts of tensors of one size, with the index of their first element."""
    flat = [tensor.reshape(-1) for tensor in tensors]
    for start in range(0, len(flat[0]), _PART):
        yield start, [tensor[start : start + _PART] for tensor in flat]


def _compute_bound_used(
    error: torch.Tensor, bound: torch.Tensor, within: torch.Tensor
) -> torch.Tensor:
    """Return error / bound; 0 / 0 is 0, and any error beyond a zero bound is infinite.

    At most 1 exactly where an element conforms, so that the largest value belongs to a wrong
    element if there is one. (An integer between two that conform is nearer than its bound.)
    """
    ratio = error / bound  # 0 of an infinite bound
    if not _is_all_finite(ratio):
        ratio = torch.where(error == 0, 0.0, ratio)
        ratio = torch.where(ratio.isnan(), math.inf, ratio)
        ratio = torch.where(within, ratio.clamp_max(1.0), ratio)
    return ratio if within.all() else torch.where(within, ratio, ratio.clamp_min(_BEYOND))


def _is_all_finite(x: torch.Tensor) -> bool:
    """Whether all elements are finite, decided by their sum: many times faster than each. False as
    well where the sum of finite elements overflows."""
    return math.isfinite(float(x.sum()))


def _get_largest(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).max if dtype.is_floating_point else math.inf


def _is_same_nonfinite(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.isnan() & b.isnan()) | (a.isinf() & (a == b))
