"""How many terms a reduction sums, and the magnitude that its rounding is relative to.

A sum of K terms in any order errs by at most ``K·u·Σ|terms|`` (N. J. Higham, *Accuracy and
Stability of Numerical Algorithms*, 2nd ed., 2002, section 3.1); docs/numerics.md has the rest.
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
# A bound is the safety factor times the root mean square of the noise, 4 · 0.764 amplitudes: the
# amplitude of a sum is its probabilistic bound over that.
_SUM_LAMBDA = LAMBDA / 3.0

_FFT = frozenset({"_fft_r2c", "_fft_c2r", "_fft_c2c"})
# Their error is relative to the result itself.
_RELATIVE = frozenset("prod cumprod linalg_vector_norm _cdist_forward".split())
_SCALARS = frozenset({"alpha", "beta"})
_PRODUCTS = frozenset("mm bmm mv dot linear addmm baddbmm addmv addbmm".split())
_ALONG_ONE = frozenset({"cumsum", "logcumsumexp"})


@dataclass(frozen=True)
class Reduction:
    """What a call of a reduction sums.

    Attributes:
        terms: number of terms of one output element; for running sums float64, of each element.
        magnitudes: for each floating or complex output the sum of the absolute terms, float64;
            None where the error is relative to the result itself.
        repeated: how many of the terms repeat their predecessors, float64, broadcasting with the
            outputs; None for none. Their rounding errors have one sign.
    """

    terms: int | torch.Tensor
    magnitudes: list[torch.Tensor] | None
    repeated: torch.Tensor | None

    def roundings(self, exact_terms: int = 1) -> float | torch.Tensor:
        """How many roundings of the magnitude the sum may be off by, its last one included.

        Args:
            exact_terms: neighbouring terms that are summed without rounding.
        """
        if isinstance(self.terms, torch.Tensor):  # the first is a copy: nothing rounds
            added = self.terms - 1
            error = torch.minimum(added, _SUM_LAMBDA * added.sqrt())
            return error if self.repeated is None else (error + self.repeated).minimum(added)
        length = -(-self.terms // exact_terms)
        independent = min(float(length), _SUM_LAMBDA * math.sqrt(length))
        if self.repeated is None or independent == length:
            return independent + 1
        return (self.repeated / exact_terms + independent).clamp_max(float(length)) + 1


def reduction(
    func: Any,
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    unit: float,
    *,
    coarse: bool = False,
) -> Reduction:
    """Terms and magnitudes of a call that is yet to come: it may write to its arguments.

    Args:
        func: the overload that is called.
        name: its base name.
        args: its arguments, floating tensors in float64.
        kwargs: its arguments by name.
        unit: unit roundoff of what it sums in.
        coarse: magnitudes may be computed in float32, where its range does: no term has a sign, so
            that they are right to a millionth.
    """
    if name in _FFT:
        return _fourier(name, args)
    coarse = coarse and not any(map(torch.is_complex, _tensors((args, kwargs))))
    result = _absolute_sums(func, name, args, kwargs, torch.float32) if coarse else None
    if result is None:
        result = _absolute_sums(func, name, args, kwargs, torch.float64)
    if not result:
        return Reduction(1, None, None)
    terms = max(1, _terms(name, args, result[0]))
    if name in _RELATIVE or (name.startswith("scatter_reduce") and "prod" in args):
        return Reduction(terms, None, None)
    repeated = _repeated(name, args) if terms > LAMBDA**2 else None
    magnitudes = [item.abs() for item in result]
    if repeated is not None and _sums_exactly(name, args, terms, magnitudes[0], unit):
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
    """The operation itself, on absolute values: fresh ones, so that nothing is written to. None
    where they leave the range of float32, or come close."""
    absolute = tuple(_absolute(item, dtype) for item in args)
    named = {
        key: abs(item) if key in _SCALARS else _absolute(item, dtype)
        for key, item in kwargs.items()
    }
    result = [item for item in leaves(compute(func, name, absolute, named)) if is_inexact(item)]
    if dtype != torch.float32 or all(map(_in_range, result)):
        return result
    return None


def _in_range(magnitude: torch.Tensor) -> bool:
    if magnitude.dtype != torch.float32 or not magnitude.numel():
        return True
    low, high = magnitude.aminmax()
    return float(low) > 1e-30 and float(high) < 1e30


def _terms(name: str, args: tuple[Any, ...], out: torch.Tensor) -> int:
    first: torch.Tensor = args[0]
    if name in ("mm", "bmm", "mv", "dot", "linear"):
        return first.shape[-1]
    if name in ("addmm", "baddbmm", "addmv"):
        return int(args[1].shape[-1]) + 1
    if name == "addbmm":
        return int(args[1].shape[0] * args[1].shape[-1]) + 1
    if name == "convolution":
        weight: torch.Tensor = args[1]
        # A transposed weight is (in, out / groups, ...): what one output sums over is in.
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


def _repeated(name: str, args: tuple[Any, ...]) -> torch.Tensor | None:
    """How many terms of each output are like the two before them, and not zero.

    Within a binade of the partial sum, adding the same number rounds the same way every time:
    such errors add up instead of averaging out.
    """
    if name in _PRODUCTS:
        return _repeated_products(name, args)
    x = args[0]
    if name in ("sum", "mean", "nansum"):
        dims = args[1] if len(args) > 1 and isinstance(args[1], list | tuple) else None
        over = [dim % x.dim() for dim in dims] if dims else list(range(x.dim()))
        keep = bool(args[2]) if len(args) > 2 else False
        kept = [dim for dim in range(x.dim()) if dim not in over]
        rows = x.permute(*kept, *over).reshape(*[x.shape[dim] for dim in kept], -1)
        count = _like_before(rows, -1)
        if count is None:
            return None
        total = count.sum(-1).double()
        return (
            total.reshape([1 if d in over else x.shape[d] for d in range(x.dim())])
            if keep
            else total
        )
    if name in _ALONG_ONE:
        count = _like_before(x, args[1])
        return None if count is None else count.cumsum(args[1]).double()
    # The rest: only where all of their terms are one number.
    operands = [item for item in args[:2] if isinstance(item, torch.Tensor) and is_inexact(item)]
    if all(item.numel() and bool((item == item.flatten()[0]).all()) for item in operands):
        return torch.tensor(math.inf, dtype=torch.float64)
    return None


def _sums_exactly(
    name: str, args: tuple[Any, ...], terms: int, magnitude: torch.Tensor, unit: float
) -> bool:
    """Whether all terms are whole multiples of a power of two, and their sum of few enough of them
    that nothing rounds: of ones, above all."""
    quantum = 1.0 if name not in ("mean",) and "avg_pool" not in name else 1.0 / terms
    for item in args[:3]:
        if not is_inexact(item):
            continue
        size = item.abs()
        least = float(torch.where(size > 0, size, math.inf).min()) if size.numel() else math.inf
        if not 0 < least < math.inf:
            continue
        numerator, denominator = least.as_integer_ratio()
        power = (numerator & -numerator) / denominator  # its last bit
        if not bool((item / power == (item / power).round()).all()):
            return False
        quantum *= power
    return float(magnitude.max()) <= quantum / unit


def _repeated_products(name: str, args: tuple[Any, ...]) -> torch.Tensor | None:
    """A term repeats where both of its factors do: a product of indicators counts them."""
    left, right = args[1:3] if name.startswith("add") or name == "baddbmm" else args[:2]
    across = -1 if name in ("linear", "mv", "dot", "addmv") else -2
    rows, columns = _like_before(left, -1), _like_before(right, across)
    if rows is None or columns is None:
        return None
    columns = columns.mT if name == "linear" else columns
    count = rows.double() @ columns.double()
    return count.sum(0) if name == "addbmm" else count


def _like_before(x: torch.Tensor, dim: int) -> torch.Tensor | None:
    """Where an element along a dimension equals the two before it and is not zero; bool."""
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
    # The first two of a run are like the rest.
    shape = list(x.shape)
    shape[dim] = 2
    return torch.cat([same.new_zeros(shape), same], dim)


def _fourier(name: str, args: tuple[Any, ...]) -> Reduction:
    """Each output of a discrete Fourier transform sums all n inputs, in log2(n) stages.

    A stage errs by ``η·u`` of each number, η = 1 + 4√2 (Higham 2002, theorem 24.2). Numbers of a
    stage that reach one output have a root sum of squares of ‖x‖, so that with independent errors
    each stage adds ``η·u·‖x‖`` and all of them λ√log2(n) times that.
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
    """Whether it is a floating or complex tensor."""
    return isinstance(item, torch.Tensor) and (item.is_floating_point() or item.is_complex())


def _absolute(item: Any, dtype: torch.dtype) -> Any:
    if not is_inexact(item):
        return item
    return item.abs() if dtype == torch.float64 else item.to(dtype, copy=True).abs_()


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    return filter(torch.is_tensor, leaves(tree))
