"""Reproduce a torch build with MPS: composite operators and the layout of convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from harness.vendors.torch import OpOverload, make_channels_last_strides_for, suggest_memory_format

aten = torch.ops.aten


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Decompose attention as torch does on MPS without gradients.

    The result is one fused kernel. From macOS 15 on it accepts strided inputs (pytorch pull request
    139791); since torch 2.12 it repeats shared heads itself (181298). Its mask is additive. It has
    no dropout.
    """
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        never = aten.scalar_tensor.default(
            float("-inf"), dtype=query.dtype, device=attn_mask.device
        )
        attn_mask = aten.where.ScalarSelf(attn_mask, 0.0, never)
    fused = dropout_p == 0.0
    attention: Callable[..., Any] = (
        aten._scaled_dot_product_attention_math_for_mps.default
        if fused
        else aten._scaled_dot_product_attention_math.default
    )
    result: torch.Tensor = attention(
        query,
        key,
        value,
        attn_mask,
        dropout_p,
        is_causal,
        None,
        scale=scale,
        enable_gqa=enable_gqa,
    )[0]
    return result


def convolution_format(
    source: torch.Tensor, weight: torch.Tensor, backend: Any
) -> torch.memory_format:
    """Return the layout of a convolution's result on MPS: channels-last if an operand has it.

    Source: ``mps_conv_use_channels_last`` in torch's ``ATen/native/ConvUtils.h``; strides of
    dimensions of size 1 count.
    """
    for operand in (source, weight):
        found = suggest_memory_format(operand)
        exact = make_channels_last_strides_for(operand.shape) if operand.dim() > 3 else ()
        if found != torch.contiguous_format and operand.stride() == exact:
            return found
    return torch.contiguous_format


KERNELS: dict[OpOverload, Callable[..., Any]] = {
    aten.scaled_dot_product_attention.default: scaled_dot_product_attention,
}
"""Python kernels that replace the composite kernels of a torch build without MPS."""
