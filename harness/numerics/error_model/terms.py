"""Count the terms of a reduction, and find its bias, from the arguments of a call.

Functions that count repeated terms return None for none. They count the nonzero terms of each
output that equal the two terms before them: within a binade of the partial sum, adding the same
number rounds the same way every time, so that such errors add up instead of averaging out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch

Args: TypeAlias = tuple[Any, ...]
Kwargs: TypeAlias = dict[str, Any]
CountTerms: TypeAlias = Callable[[Args, torch.Tensor], int]
FindBias: TypeAlias = Callable[[Args, Kwargs], torch.Tensor | None]


def is_inexact(item: Any) -> bool:
    """Whether the item is a floating or complex tensor."""
    return isinstance(item, torch.Tensor) and (item.is_floating_point() or item.is_complex())


def never(args: Args) -> bool:
    """Return False, for any call."""
    return False


def always(args: Args) -> bool:
    """Return True, for any call."""
    return True


def count_per_output(args: Args, out: torch.Tensor) -> int:
    """Count the elements that an output has in the mean."""
    return int(args[0].numel() // max(1, out.numel()))


def count_along(args: Args, out: torch.Tensor) -> int:
    """Count the elements along a dimension."""
    return int(args[0].shape[args[1]]) if args[0].dim() else 1


def count_kernel(args: Args, out: torch.Tensor) -> int:
    """Count the elements of a convolution's kernel, and the bias."""
    weight: torch.Tensor = args[1]
    # A transposed weight is (in, out / groups, ...); an output sums over the in channels.
    channels = weight.shape[0] // args[8] if args[6] else weight.shape[1]
    return int(channels) * math.prod(weight.shape[2:]) + 1


def find_no_bias(args: Args, kwargs: Kwargs) -> torch.Tensor | None:
    """Return no bias."""
    return None


def find_added(args: Args, kwargs: Kwargs) -> torch.Tensor | None:
    """Return the summand that a product is added to."""
    added: torch.Tensor = args[0] * kwargs.get("beta", 1)
    return added


def find_convolution_bias(args: Args, kwargs: Kwargs) -> torch.Tensor | None:
    """Return the bias of a convolution."""
    bias: torch.Tensor | None = args[2] if args[2:] else None
    return None if bias is None else bias.reshape(-1, *[1] * (args[1].dim() - 2))


def count_repeated_rows(args: Args) -> torch.Tensor | None:
    """Count repeated terms of a sum over dimensions."""
    x = args[0]
    dims = args[1] if len(args) > 1 and isinstance(args[1], list | tuple) else None
    over = [dim % x.dim() for dim in dims] if dims else list(range(x.dim()))
    keep = bool(args[2]) if len(args) > 2 else False
    kept = [dim for dim in range(x.dim()) if dim not in over]
    rows = x.permute(*kept, *over).reshape(*[x.shape[dim] for dim in kept], -1)
    count = _find_repeats(rows, -1)
    if count is None:
        return None
    total = count.sum(-1).double()
    if not keep:
        return total
    return total.reshape([1 if d in over else x.shape[d] for d in range(x.dim())])


def count_repeated_along(args: Args) -> torch.Tensor | None:
    """Count repeated terms of running sums along a dimension."""
    count = _find_repeats(args[0], args[1])
    return None if count is None else count.cumsum(args[1]).double()


def count_if_all_equal(args: Args) -> torch.Tensor | None:
    """Count all terms as repeated if they are one number."""
    operands = [item for item in args[:2] if isinstance(item, torch.Tensor) and is_inexact(item)]
    if all(item.numel() and bool((item == item.flatten()[0]).all()) for item in operands):
        return torch.tensor(math.inf, dtype=torch.float64)
    return None


def count_all(args: Args) -> torch.Tensor:
    """Count all factors of a product as repeated.

    Factors of few different values have few different rounding errors. In a sum of terms of one
    sign these are never more than the error of one term; in a product they add up.
    """
    return torch.tensor(math.inf, dtype=torch.float64)


def count_repeated_products(
    args: Args, *, first: int, across: int, batches: bool
) -> torch.Tensor | None:
    """Count repeated terms of a matrix product: a term repeats where both factors do.

    Args:
        args: the arguments of the call.
        first: position of the first factor.
        across: the dimension of the second factor that is summed.
        batches: whether batches are summed, too.
    """
    left, right = args[first : first + 2]
    rows, columns = _find_repeats(left, -1), _find_repeats(right, across)
    if rows is None or columns is None:
        return None
    columns = columns.mT if across == -1 and columns.dim() > 1 else columns
    count = rows.double() @ columns.double()
    return count.sum(0) if batches else count


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
