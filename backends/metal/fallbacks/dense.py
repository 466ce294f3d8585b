"""Kernels that the runtime implements with MPSGraph: float32 sums, rounded to the dtype once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_LAST = torch.channels_last


def mm_out(out: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, ...]:
    """``out = left @ right`` for (M, K) and (K, N)."""
    out.copy_(_wide(left) @ _wide(right))
    return ()


def bmm_out(out: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, ...]:
    """``out = left @ right`` for (B, M, K) and (B, K, N)."""
    out.copy_(torch.bmm(_wide(left), _wide(right)))
    return ()


def addmm_out(
    out: Tensor, bias: Tensor, left: Tensor, right: Tensor, beta: float, alpha: float
) -> tuple[Tensor, ...]:
    """``out = beta * bias + alpha * (left @ right)``; ``bias`` broadcasts to (M, N)."""
    out.copy_(beta * _wide(bias) + alpha * (_wide(left) @ _wide(right)))
    return ()


def convolution(
    source: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    stride_len: int,
    padding: Sequence[int],
    padding_len: int,
    dilation: Sequence[int],
    dilation_len: int,
    transposed: int,
    output_padding: Sequence[int],
    output_padding_len: int,
    groups: int,
) -> tuple[Tensor]:
    """Convolve (N, C, ...) or (C, ...) in as many dimensions as the weight has.

    The result is channels-last where ATen's result is, because the generated code assumes that
    layout. Otherwise it is contiguous.
    """
    batched = source.dim() == weight.dim()
    result = torch.ops.aten.convolution.default(
        (source if batched else source[None]).float(),
        weight.float(),
        None if bias is None else bias.float(),
        list(stride),
        list(padding),
        list(dilation),
        bool(transposed),
        list(output_padding),
        groups,
    )
    result = result if batched else result[0]
    layout = torch.contiguous_format
    if source.dim() == 4 and (_channels_last(source) or _channels_last(weight)):
        layout = _LAST
    return (result.to(source.dtype).contiguous(memory_format=layout),)


def _wide(tensor: Tensor) -> Tensor:
    """Convert to the dtype of sums. The runtime rejects integers; their products are exact here."""
    return tensor.float() if tensor.is_floating_point() else tensor.long()


def _channels_last(tensor: Tensor) -> bool:
    return tensor.is_contiguous(memory_format=_LAST) and not tensor.is_contiguous()


def topk(source: Tensor, k: int, dim: int, largest: int, sorted_: int) -> tuple[Tensor, Tensor]:
    """Return sorted values and int64 indices; the order of equal values is undefined."""
    values, indices = torch.topk(source.float(), k, dim, bool(largest), sorted=True)
    return values.to(source.dtype).contiguous(), indices.contiguous()
