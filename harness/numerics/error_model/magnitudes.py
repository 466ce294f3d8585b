"""Count the terms of a reduction, and compute the magnitude that its rounding is relative to.

A sum of K terms in any order errs by at most ``K·u·Σ|terms|`` (N. J. Higham, *Accuracy and
Stability of Numerical Algorithms*, 2nd ed., 2002, section 3.1); docs/numerics.md derives the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.model.trees import leaves
from harness.numerics.kernels.products import compute

# λ of the probabilistic summation bound (Higham & Mary 2019, theorem 2.4): the chance that
# one sum of a million terms exceeds λ√K·u is below 1e-7.
LAMBDA = 6.0
# A bound is the safety factor times the root mean square of the noise, 4 · 0.764 amplitudes. The
# amplitude of a sum is its probabilistic bound divided by that.
_SUM_LAMBDA = LAMBDA / 3.0

_FFT = frozenset({"_fft_r2c", "_fft_c2r", "_fft_c2c"})
# The error of these is relative to the result itself.
_RELATIVE = frozenset("prod cumprod linalg_vector_norm _cdist_forward".split())
_SCALARS = frozenset({"alpha", "beta"})
_PRODUCTS = frozenset("mm bmm mv dot linear addmm baddbmm addmv addbmm".split())
_ALONG_ONE = frozenset({"cumsum", "logcumsumexp"})


@dataclass(frozen=True)
class Reduction:
    """Terms and magnitudes of one call of a reduction.

    Attributes:
        terms: number of terms of one output element; for running sums float64, per element.
        magnitudes: for each floating or complex output the sum of the absolute terms, float64;
            None where the error is relative to the result itself.
        repeated: how many terms repeat their predecessors, float64, broadcasting with the
            outputs; None for none. Their rounding errors have one sign.
    """

    terms: int | torch.Tensor
    magnitudes: list[torch.Tensor] | None
    repeated: torch.Tensor | None

    def count_roundings(self, exact_terms: int = 1) -> float | torch.Tensor:
        """Return the error of the sum in roundings of its magnitude, the last one included.

        Args:
            exact_terms: number of neighbouring terms that are summed without rounding.
        """
        if isinstance(self.terms, torch.Tensor):  # the first is a copy and does not round
            added = self.terms - 1
            error = torch.minimum(added, _SUM_LAMBDA * added.sqrt())
            return error if self.repeated is None else (error + self.repeated).minimum(added)
        length = -(-self.terms // exact_terms)
        independent = min(float(length), _SUM_LAMBDA * math.sqrt(length))
        if self.repeated is None or independent == length:
            return independent + 1
        return (self.repeated / exact_terms + independent).clamp_max(float(length)) + 1


def analyze_reduction(
    func: Any,
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    unit: float,
    *,
    coarse: bool = False,
) -> Reduction:
    """Compute terms and magnitudes of a call before it runs: it may write to its arguments.

    Args:
        func: the overload that is called.
        name: its base name.
        args: its arguments, floating tensors in float64.
        kwargs: its keyword arguments.
        unit: unit roundoff of the dtype that it sums in.
        coarse: whether magnitudes may be computed in float32, as far as its range allows. All
            terms are positive, so that the relative error is about 1e-6.
    """
    if name in _FFT:
        return _analyze_fourier(name, args)
    coarse = coarse and not any(map(torch.is_complex, _tensors((args, kwargs))))
    result = _absolute_sums(func, name, args, kwargs, torch.float32) if coarse else None
    if result is None:
        result = _absolute_sums(func, name, args, kwargs, torch.float64)
    if not result:
        return Reduction(1, None, None)
    terms = max(1, _count_terms(name, args, result[0]))
    if name in _RELATIVE or (name.startswith("scatter_reduce") and "prod" in args):
        return Reduction(terms, None, None)
    repeated = _count_repeated(name, args) if terms > LAMBDA**2 else None
    magnitudes = [item.abs() for item in result]
    if repeated is not None and _is_exact_sum(name, args, terms, magnitudes[0], unit):
        repeated = None
    if name == "cumsum" and args[0].dim():
        shape = [1] * args[0].dim()
        shape[args[1]] = -1
        running = torch.arange(1, terms + 1, dtype=torch.float64).reshape(shape)
        return Reduction(running, magnitudes, repeated)
    return Reduction(terms, magnitudes, repeated)


def _absolute_sums(
    func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype
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


def _count_terms(name: str, args: tuple[Any, ...], out: torch.Tensor) -> int:
    first: torch.Tensor = args[0]
    if name in ("mm", "bmm", "mv", "dot", "linear"):
        return first.shape[-1]
    if name in ("addmm", "baddbmm", "addmv"):
        return int(args[1].shape[-1]) + 1
    if name == "addbmm":
        return int(args[1].shape[0] * args[1].shape[-1]) + 1
    if name == "convolution":
        weight: torch.Tensor = args[1]
        # A transposed weight is (in, out / groups, ...); an output sums over the in channels.
        channels = weight.shape[0] // args[8] if args[6] else weight.shape[1]
        return int(channels) * math.prod(weight.shape[2:]) + 1
    if name.startswith(("avg_pool", "_adaptive_avg_pool", "adaptive_avg_pool")):
        if name.startswith("avg_pool"):
            return math.prod(args[1])
        return max(1, first.numel() // max(1, out.numel())) * 2
    if name == "index_put":
        return int(args[2].numel()) + 1
    if name in ("cumsum", "cumprod"):
        return first.shape[args[1]] if first.dim() else 1
    if name in ("scatter_add", "scatter_reduce", "index_add", "index_reduce", "col2im"):
        return first.numel()
    if name == "_cdist_forward":
        return 2 * first.shape[-1]
    return first.numel() // max(1, out.numel())


def _count_repeated(name: str, args: tuple[Any, ...]) -> torch.Tensor | None:
    """Count the nonzero terms of each output that equal the two terms before them.

    Within a binade of the partial sum, adding the same number rounds the same way every time:
    such errors add up instead of averaging out.
    """
    if name in _PRODUCTS:
        return _count_repeated_products(name, args)
    x = args[0]
    if name in ("sum", "mean", "nansum"):
        dims = args[1] if len(args) > 1 and isinstance(args[1], list | tuple) else None
        over = [dim % x.dim() for dim in dims] if dims else list(range(x.dim()))
        keep = bool(args[2]) if len(args) > 2 else False
        kept = [dim for dim in range(x.dim()) if dim not in over]
        rows = x.permute(*kept, *over).reshape(*[x.shape[dim] for dim in kept], -1)
        count = _find_repeats(rows, -1)
        if count is None:
            return None
        total = count.sum(-1).double()
        return (
            total.reshape([1 if d in over else x.shape[d] for d in range(x.dim())])
            if keep
            else total
        )
    if name in _ALONG_ONE:
        count = _find_repeats(x, args[1])
        return None if count is None else count.cumsum(args[1]).double()
    # Other reductions count only where all of their terms are one number.
    operands = [item for item in args[:2] if isinstance(item, torch.Tensor) and is_inexact(item)]
    if all(item.numel() and bool((item == item.flatten()[0]).all()) for item in operands):
        return torch.tensor(math.inf, dtype=torch.float64)
    return None


def _is_exact_sum(
    name: str, args: tuple[Any, ...], terms: int, magnitude: torch.Tensor, unit: float
) -> bool:
    """Whether no partial sum rounds, as for a sum of ones.

    All terms are integer multiples of a power of two, and the sum of their magnitudes is a
    multiple that the dtype can represent.
    """
    quantum = 1.0 if name not in ("mean",) and "avg_pool" not in name else 1.0 / terms
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


def _count_repeated_products(name: str, args: tuple[Any, ...]) -> torch.Tensor | None:
    """Count repeated terms of a matrix product: a term repeats where both factors do."""
    left, right = args[1:3] if name.startswith("add") or name == "baddbmm" else args[:2]
    across = -1 if name in ("linear", "mv", "dot", "addmv") else -2
    rows, columns = _find_repeats(left, -1), _find_repeats(right, across)
    if rows is None or columns is None:
        return None
    columns = columns.mT if name == "linear" else columns
    count = rows.double() @ columns.double()
    return count.sum(0) if name == "addbmm" else count


def _find_repeats(x: torch.Tensor, dim: int) -> torch.Tensor | None:
    """Mark nonzero elements that equal the two before them along a dimension; bool."""
    length = x.shape[dim] if x.dim() else 0
    if length < 3:
        return None
    like_last = x.narrow(dim, 1, length - 1) == x.narrow(dim, 0, length - 1)
    same = like_last.narrow(dim, 1, length - 2) & like_last.narrow(dim, 0, length - 2)
    if not bool(same.any()):
        return None
    same &= x.narrow(dim, 2, length - 2) != 0
    if not bool(same.any()):
        return None
    # The first two elements of a sequence equal the rest.
    shape = list(x.shape)
    shape[dim] = 2
    return torch.cat([same.new_zeros(shape), same], dim)


def _analyze_fourier(name: str, args: tuple[Any, ...]) -> Reduction:
    """Compute the magnitude of a discrete Fourier transform: n inputs, summed in log2(n) stages.

    A stage errs by ``η·u`` of each number, η = 1 + 4√2 (Higham 2002, theorem 24.2). Numbers of a
    stage that reach one output have a root sum of squares of ‖x‖. With independent errors each
    stage adds ``η·u·‖x‖``, and all of them λ√log2(n) times that.
    """
    x, dims, normalization = args[0], args[1], args[2]
    sizes: Sequence[int] = [x.shape[dim] for dim in dims]
    energy = x.abs().square().sum(tuple(dims), keepdim=True)
    if name == "_fft_c2r":
        sizes = [*sizes[:-1], args[3]]
        energy = energy * 2  # half of the spectrum is given
    count = max(1, math.prod(sizes))
    stages = math.ceil(math.log2(count)) + 1
    scale = (1.0, count**-0.5, 1.0 / count)[normalization]
    roundings = (1 + 4 * math.sqrt(2)) * LAMBDA * math.sqrt(stages)
    return Reduction(0, [energy.sqrt() * (scale * roundings)], None)


def is_inexact(item: Any) -> bool:
    """Whether the item is a floating or complex tensor."""
    return isinstance(item, torch.Tensor) and (item.is_floating_point() or item.is_complex())


def _absolute(item: Any, dtype: torch.dtype) -> Any:
    if not is_inexact(item):
        return item
    return item.abs() if dtype == torch.float64 else item.to(dtype, copy=True).abs_()


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    return filter(torch.is_tensor, leaves(tree))
