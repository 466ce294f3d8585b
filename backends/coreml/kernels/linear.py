"""Matrix products.

Definitions: docstrings in coremltools ``mil/ops/defs/iOS15/linear.py``, ``iOS17/linear.py`` and
``iOS18/transformers.py``. Values: torch's kernels in the dtype of ``x``; ``matmul`` of two dtypes
(iOS 17) in the promoted one, which the caller casts to the declared type.
"""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from backends.coreml.kernels.base import (
    broadcast_sizes,
    check_allocation,
    register_kernel,
    to_tensor,
)
from harness import ProgramError


@register_kernel("linear")
def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Compute ``x @ weight.T + bias``."""
    added = None if bias is None else to_tensor(bias, x.dtype)
    check_allocation([*x.shape[:-1], weight.shape[0]], x.dtype)
    return functional.linear(x, weight.to(x.dtype), added)


@register_kernel("matmul")
def matmul(
    x: torch.Tensor, y: torch.Tensor, transpose_x: bool = False, transpose_y: bool = False
) -> torch.Tensor:
    """Multiply matrices with numpy's rules; vectors are never transposed."""
    dtype = torch.promote_types(x.dtype, y.dtype)
    first = x.mT if transpose_x and x.dim() > 1 else x
    second = y.mT if transpose_y and y.dim() > 1 else y
    batch = broadcast_sizes(first.shape[:-2], second.shape[:-2])
    rows = first.shape[-2] if first.dim() > 1 else 1
    columns = second.shape[-1] if second.dim() > 1 else 1
    check_allocation([*batch, rows, columns], dtype)
    return torch.matmul(first.to(dtype), second.to(dtype))


def _number_letters(equation: str) -> tuple[list[int], ...]:
    """Replace each letter of an equation by the number of its first use."""
    letters: dict[str, int] = {}
    terms = equation.replace(" ", "").replace("->", ",").split(",")
    return tuple([letters.setdefault(letter, len(letters)) for letter in term] for term in terms)


_EQUATIONS = (_number_letters("nchw,nwhu->nchu"), _number_letters("chw,whr->chr"))


@register_kernel("einsum")
def einsum(values: list[torch.Tensor], equation: str) -> torch.Tensor:
    """Compute ``nchw,nwhu->nchu`` or ``chw,whr->chr``; n and h are broadcast.

    Raises:
        ProgramError: MIL supports no other equation.
    """
    if _number_letters(equation) not in _EQUATIONS or len(values) != 2:
        raise ProgramError(f"unsupported equation {equation!r}")
    x, y = values
    batch = broadcast_sizes(x.shape[:-3], y.shape[:-3])
    height = max(x.shape[-2], y.shape[-2])
    check_allocation([*batch, x.shape[-3], height, y.shape[-1]], x.dtype)
    return torch.einsum(equation, x, y)


@register_kernel("scaled_dot_product_attention")
def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compute ``softmax(query @ key.T / sqrt(E) + mask) @ value``; a bool mask keeps scores.

    A float mask of another dtype is converted to the dtype of ``query``.
    """
    check_allocation([math.prod(query.shape[:-1]), key.shape[-2]], query.dtype)
    mask = attn_mask
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.to(query.dtype)
    return functional.scaled_dot_product_attention(query, key, value, mask)
