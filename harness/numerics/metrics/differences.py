"""How a tensor differs from what is expected, in figures; a large one in parts, so that none of
them needs a copy of it.

Every figure is defined for every tensor (docs/numerics.md has the table): none raises, and none
hides a NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from harness.numerics.bounds import attained

# The bits of a float64 that say which power of two is below it.
_EXPONENT = 0x7FF0_0000_0000_0000
# The least number above 1.
_BEYOND = 1 + 2.0**-52
# Elements that are looked at together: what a cache holds.
_PART = 2**17


@dataclass
class Tally:
    """Errors of a tensor against its bound.

    Attributes:
        elements: how many there are.
        exceeding: how many of them do not conform.
        max_abs: the largest error.
        sum_abs: of all errors.
        max_ulp: the largest error in units of the last place of the oracle, in the tensor's dtype;
            None for integers and bools, where the notion is empty. Below the normal range the unit
            is that of the smallest normal number.
        worst: flat index of the element that uses most of its bound; None where there is none.
        used: how much of it that is; infinite for any error where the bound is zero.
        worst_error: its error.
    """

    elements: int = 0
    exceeding: int = 0
    max_abs: float = 0.0
    sum_abs: float = 0.0
    max_ulp: float | None = None
    worst: int | None = None
    used: float = 0.0
    worst_error: float = 0.0

    @property
    def mean_abs(self) -> float:
        """The mean error; 0 of nothing."""
        return self.sum_abs / self.elements if self.elements else 0.0

    @staticmethod
    def of(
        actual: torch.Tensor,
        oracle: torch.Tensor,
        bound: torch.Tensor,
        eager: torch.Tensor,
        others: torch.Tensor | None = None,
    ) -> Tally:
        """Count; arguments as for :func:`errors`."""
        tally = Tally(max_ulp=0.0 if actual.is_floating_point() else None)
        flat = None if others is None else others.reshape(len(others), -1)
        for start, (value, truth, limit, native) in parts(actual, oracle, bound, eager):
            choice = None if flat is None else flat[:, start : start + _PART]
            tally._add(start, value, truth, *errors(value, truth, limit, native, choice), limit)
        return tally

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
        used = _used(error, bound, within)
        most = int(used.argmax())
        if self.worst is None or float(used[most]) > self.used:
            self.worst, self.used = start + most, float(used[most])
            self.worst_error = float(error[most])
        if self.max_ulp is not None:
            finfo = torch.finfo(value.dtype)
            size = truth.double().abs()
            if not _finite(size):
                size.nan_to_num_(nan=1.0, posinf=finfo.max)
            size.clamp_min_(finfo.tiny).view(torch.int64).bitwise_and_(_EXPONENT)
            self.max_ulp = max(self.max_ulp, float((error / size.mul_(finfo.eps)).max()))


def largest_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest of the :func:`errors` of two tensors of one dtype; 0 of nothing."""
    largest, unbounded = 0.0, torch.tensor(math.inf, dtype=torch.float64)
    for _, (value, native) in parts(actual, expected):
        error, _ = errors(value, native.double(), unbounded, native)
        largest = max(largest, float(error.max()))
    return largest


def errors(
    actual: torch.Tensor,
    oracle: torch.Tensor,
    bound: torch.Tensor,
    eager: torch.Tensor,
    others: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Absolute errors (float64) and which elements conform.

    Two finite values conform when they differ by at most the bound. A non-finite value
    conforms when it is the same infinity, or also NaN, in the oracle rounded to the output's
    dtype or in eager: an intermediate may overflow in the dtype although the result would not.
    Its error is then 0; any other error with a non-finite value is infinite. Where the bound of a
    finite value is infinite nothing is known, and everything conforms, also what is not finite.

    Integers and bools conform when they are the oracle's or one of ``others``, and so do infinities
    among these; beyond 2^53, where float64 has no difference, an error is 1.

    Args:
        actual: what the target returned.
        oracle: what is exact, same shape.
        bound: float64, same shape; the largest error that conforms.
        eager: what eager returned, in the dtype of ``actual``.
        others: further values that conform, along a first dimension.
    """
    if not actual.is_floating_point():
        error = (actual.double() - oracle.double()).abs()
        error = torch.where(actual == oracle, 0.0, error.clamp_min(1.0))
        return error, attained(actual, oracle, others)
    value = actual.double()
    truth = oracle.double()
    if _finite(value) and _finite(truth):
        error = (value - truth).abs_()
        return error, error <= bound
    rounded = truth.to(actual.dtype).double()
    error = (value - truth).abs()
    finite = value.isfinite() & truth.isfinite()
    same = _same_nonfinite(value, rounded) | _same_nonfinite(value, eager.double())
    if others is not None:
        same |= value.isinf() & attained(value, truth, others)
    same |= unjudged(truth, bound) & ~value.isfinite()
    error = torch.where(finite, error, math.inf)
    error = torch.where(same, 0.0, error)
    return error, (finite & (error <= bound)) | same


def unjudged(oracle: torch.Tensor, bound: torch.Tensor) -> torch.Tensor:
    """Which elements have no verdict: the oracle is finite and the bound is not."""
    return bound.isinf() & oracle.isfinite()


@dataclass
class Difference:
    """Two tensors as a whole, in sums over their elements.

    Elements where both are the same non-finite value are left out, and values that are not finite
    where nothing was judged.

    Attributes:
        noise: Σ(a-r)².
        signal: Σr².
        power: Σa².
        product: Σa·r.
        comparable: no other value is non-finite, and the shapes are the same.
    """

    noise: float = 0.0
    signal: float = 0.0
    power: float = 0.0
    product: float = 0.0
    comparable: bool = True

    @staticmethod
    def of(
        actual: torch.Tensor, reference: torch.Tensor, bound: torch.Tensor | None = None
    ) -> Difference:
        """Sum up.

        Args:
            actual: what the target returned.
            reference: what it is compared with.
            bound: the bounds; where one is infinite, a value that is not finite is left out.
        """
        found = Difference(comparable=actual.numel() == reference.numel())
        if found.comparable:
            limits = [] if bound is None or _finite(bound) else [bound]
            for _, (a, r, *limit) in parts(actual, reference, *limits):
                if limit:
                    judged = a.double().isfinite() | ~unjudged(r, limit[0])
                    a, r = a[judged], r[judged]
                if len(a):
                    found._add(a, r)
        return found

    def _add(self, actual: torch.Tensor, reference: torch.Tensor) -> None:
        a, r = actual.double(), reference.double()
        if not (_finite(a) and _finite(r)) or float(r.abs().max()) > _largest(actual.dtype):
            r = torch.where(r.abs() > _largest(actual.dtype), r.sign() * math.inf, r)
            both = a.isfinite() & r.isfinite()
            self.comparable = self.comparable and bool((both | _same_nonfinite(a, r)).all())
            a, r = a[both], r[both]
        off = a - r
        self.noise += float(off @ off)
        self.signal += float(r @ r)
        self.power += float(a @ a)
        self.product += float(a @ r)

    @property
    def sqnr_db(self) -> float:
        """Signal to quantization noise ratio, 10·log10(Σr² / Σ(a-r)²), in dB.

        Equal tensors (empty ones too) give inf; a zero reference that is not met gives -inf, and so
        does what cannot be compared.
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


def parts(*tensors: torch.Tensor) -> Iterator[tuple[int, list[torch.Tensor]]]:
    """The same elements of tensors of one size, flat, some at a time, and which is the first."""
    flat = [tensor.reshape(-1) for tensor in tensors]
    for start in range(0, len(flat[0]), _PART):
        yield start, [tensor[start : start + _PART] for tensor in flat]


def _used(error: torch.Tensor, bound: torch.Tensor, within: torch.Tensor) -> torch.Tensor:
    """error / bound; 0 / 0 is 0, and anything beyond a zero bound is infinite.

    At most 1 exactly where an element conforms: the element that uses most of its bound is a wrong
    one where there is one. (An integer between two that conform is nearer than its bound.)
    """
    ratio = error / bound  # 0 of an infinite bound
    if not _finite(ratio):
        ratio = torch.where(error == 0, 0.0, ratio)
        ratio = torch.where(ratio.isnan(), math.inf, ratio)
        ratio = torch.where(within, ratio.clamp_max(1.0), ratio)
    return ratio if within.all() else torch.where(within, ratio, ratio.clamp_min(_BEYOND))


def _finite(x: torch.Tensor) -> bool:
    """Whether all elements are; no, where their sum is not. Many times faster than each."""
    return math.isfinite(float(x.sum()))


def _largest(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).max if dtype.is_floating_point else math.inf


def _same_nonfinite(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.isnan() & b.isnan()) | (a.isinf() & (a == b))
