"""Compute the magnitude that the rounding of a reduction is relative to.

A sum of K terms in any order errs by at most ``K·u·Σ|terms|`` (N. J. Higham, *Accuracy and
Stability of Numerical Algorithms*, 2nd ed., 2002, section 3.1); docs/numerics.md derives the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.model.trees import leaves
from harness.numerics.error_model import terms
from harness.numerics.error_model.terms import Args, is_inexact
from harness.numerics.kernels.products import compute

# λ of the probabilistic summation bound (Higham & Mary 2019, theorem 2.4): the chance that
# one sum of a million terms exceeds λ√K·u is below 1e-7.
LAMBDA = 6.0
# A bound is the safety factor times the root mean square of the noise, 4 · 0.764 amplitudes. The
# amplitude of a sum is its probabilistic bound divided by that.
_SUM_LAMBDA = LAMBDA / 3.0

FLOAT32_UNIT = 2.0**-24
_SCALARS = frozenset({"alpha", "beta"})


@dataclass(frozen=True)
class Reduction:
    """Terms and magnitudes of one call of a reduction.

    Attributes:
        terms: number of terms of one output element; for running sums float64, per element.
        magnitudes: for each floating or complex output the sum of the absolute terms, float64;
            None where the error is relative to the result itself.
        repeated: how many terms repeat their predecessors, float64, broadcasting with the
            outputs; None for none. Their rounding errors have one sign.
        errors_per_repeat: errors of one sign that a repeated term adds: 2 in a product, its own
            rounding and that of its equal factors.
    """

    terms: int | torch.Tensor
    magnitudes: list[torch.Tensor] | None
    repeated: torch.Tensor | None
    errors_per_repeat: int = 1

    def count_roundings(self, exact_terms: int = 1) -> float | torch.Tensor:
        """Return the error of the sum in roundings of its magnitude, the last one included.

        Args:
            exact_terms: number of neighbouring terms that are summed without rounding.
        """
        if isinstance(self.terms, torch.Tensor):  # the first is a copy and does not round
            added = self.terms - 1
            error = torch.minimum(added, _SUM_LAMBDA * added.sqrt())
            if self.repeated is None:
                return error
            repeated = self.repeated * self.errors_per_repeat
            return (error + repeated).minimum(added * self.errors_per_repeat)
        length = -(-self.terms // exact_terms)
        independent = min(float(length), _SUM_LAMBDA * math.sqrt(length))
        if self.repeated is None or independent == length:
            return independent + 1
        repeated = self.repeated * self.errors_per_repeat / exact_terms
        return (repeated + independent).clamp_max(float(length * self.errors_per_repeat)) + 1


@dataclass(frozen=True)
class SumRule:
    """How the terms of a reduction are counted. Functions take the arguments of a call.

    Attributes:
        count_terms: returns the number of terms of an output; also takes the result.
        find_repeated: counts the repeated terms of each output.
        is_running: the j-th output along a dimension has j terms.
        is_mean: it divides by the number of terms.
        is_relative: whether the error is relative to the result itself.
        find_bias: returns the bias that is added to a sum of products, broadcasting with the
            result; None for none. Also takes keyword arguments.
        analyze: used instead of all others.
    """

    count_terms: terms.CountTerms = terms.count_per_output
    find_repeated: Callable[[Args], torch.Tensor | None] = terms.count_if_all_equal
    is_running: bool = False
    is_mean: bool = False
    is_relative: Callable[[Args], bool] = terms.never
    find_bias: terms.FindBias = terms.find_no_bias
    analyze: Callable[[Args], Reduction] | None = None


def analyze_reduction(
    func: Any,
    name: str,
    rule: SumRule,
    args: Args,
    kwargs: dict[str, Any],
    unit: float,
    *,
    coarse: bool = False,
) -> Reduction:
    """Compute terms and magnitudes of a call before it runs: it may write to its arguments.

    Args:
        func: the overload that is called.
        name: its base name.
        rule: how its terms are counted.
        args: its arguments, floating tensors in float64.
        kwargs: its keyword arguments.
        unit: unit roundoff of the dtype that it sums in.
        coarse: whether magnitudes may be computed in float32, as far as its range allows. All
            terms are positive, so that the relative error is about 1e-6.
    """
    if rule.analyze is not None:
        return rule.analyze(args)
    coarse = coarse and not any(map(torch.is_complex, _tensors((args, kwargs))))
    result = _absolute_sums(func, name, args, kwargs, torch.float32) if coarse else None
    if result is None:
        result = _absolute_sums(func, name, args, kwargs, torch.float64)
    if not result:
        return Reduction(1, None, None)
    count = max(1, rule.count_terms(args, result[0]))
    repeated = rule.find_repeated(args) if count > LAMBDA**2 else None
    is_relative = rule.is_relative(args)
    magnitudes = None if is_relative else [item.abs() for item in result]
    errors_per_repeat = 2 if is_relative else 1
    if repeated is not None and magnitudes is not None:
        quantum = 1.0 / count if rule.is_mean else 1.0
        if _is_exact_sum(args, quantum, magnitudes[0], unit):
            repeated = None
    if rule.is_running and args[0].dim():
        shape = [1] * args[0].dim()
        shape[args[1]] = -1
        running = torch.arange(1, count + 1, dtype=torch.float64).reshape(shape)
        return Reduction(running, magnitudes, repeated, errors_per_repeat)
    return Reduction(count, magnitudes, repeated, errors_per_repeat)


def _absolute_sums(
    func: Any, name: str, args: Args, kwargs: dict[str, Any], dtype: torch.dtype
) -> list[torch.Tensor] | None:
    """Run the operation on copies of absolute values. None where results leave the range of
    float32, or come close."""
    absolute = tuple(_absolute(item, dtype) for item in args)
    named = {
        key: abs(item) if key in _SCALARS else _absolute(item, dtype)
        for key, item in kwargs.items()
    }
    result = [item for item in leaves(compute(func, name, absolute, named)) if is_inexact(item)]
    if dtype != torch.float32 or all(map(_is_safely_in_range, result)):
        return result
    return None


def _is_safely_in_range(magnitude: torch.Tensor) -> bool:
    if magnitude.dtype != torch.float32 or not magnitude.numel():
        return True
    low, high = magnitude.aminmax()
    return float(low) > 1e-30 and float(high) < 1e30


def _is_exact_sum(args: Args, quantum: float, magnitude: torch.Tensor, unit: float) -> bool:
    """Whether no partial sum rounds, as for a sum of ones.

    All terms are integer multiples of a power of two, and the sum of their magnitudes is a
    multiple that the dtype can represent. The quantum of a sum is 1, that of a mean its factor.
    """
    for item in args[:3]:
        if not is_inexact(item):
            continue
        size = item.abs()
        least = float(torch.where(size > 0, size, math.inf).min()) if size.numel() else math.inf
        if not 0 < least < math.inf:
            continue
        numerator, denominator = least.as_integer_ratio()
        power = (numerator & -numerator) / denominator  # weight of its last bit
        if not bool((item / power == (item / power).round()).all()):
            return False
        quantum *= power
    return float(magnitude.max()) <= quantum / unit


def analyze_fourier(args: Args, *, is_inverse: bool = False) -> Reduction:
    """Compute the magnitude of a discrete Fourier transform: n inputs, summed in log2(n) stages.
    ``is_inverse``: from half of a spectrum to real numbers.

    A stage errs by ``η·u`` of each number, η = 1 + 4√2 (Higham 2002, theorem 24.2). Numbers of a
    stage that reach one output have a root sum of squares of ‖x‖. With independent errors each
    stage adds ``η·u·‖x‖``, and all of them λ√log2(n) times that.
    """
    x, dims, normalization = args[0], args[1], args[2]
    sizes: Sequence[int] = [x.shape[dim] for dim in dims]
    energy = x.abs().square().sum(tuple(dims), keepdim=True)
    if is_inverse:
        sizes = [*sizes[:-1], args[3]]
        energy = energy * 2  # half of the spectrum is given
    count = max(1, math.prod(sizes))
    stages = math.ceil(math.log2(count)) + 1
    scale = (1.0, count**-0.5, 1.0 / count)[normalization]
    roundings = (1 + 4 * math.sqrt(2)) * LAMBDA * math.sqrt(stages)
    return Reduction(0, [energy.sqrt() * (scale * roundings)], None)


def _absolute(item: Any, dtype: torch.dtype) -> Any:
    if not is_inexact(item):
        return item
    return item.abs() if dtype == torch.float64 else item.to(dtype, copy=True).abs_()


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    return filter(torch.is_tensor, leaves(tree))
