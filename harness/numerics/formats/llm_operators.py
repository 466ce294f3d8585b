"""Operators of ExecuTorch's LLM extension and its quantized embeddings as compositions of ATen's.

They are opaque to dispatch modes, or refuse float64. The oracle runs these functions instead; each
takes the arguments of its operator. Sources, executorch 1.5.1: ``extension/llm/custom_ops``
(``op_sdpa.cpp``, ``op_update_cache.cpp``, ``op_fast_hadamard_transform.cpp`` and the tests there);
``exir/passes/_quant_patterns_and_replacements.py`` for embeddings.

``quantized_moe_ffn`` is missing: its packed weights have no published layout.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    start: int,
    mask: torch.Tensor | None,
    is_causal: bool,
    scale: float | None,
) -> torch.Tensor:
    """Attention of tokens at ``start`` to all tokens up to their end, or as many as a mask has.

    Args:
        query: of shape (batch, heads, tokens, head size).
        key: of shape (batch, key heads, capacity, head size); the heads share its heads in turn.
        value: as ``key``.
        start: position of the first token.
        mask: added to scores, of shape (tokens, capacity); None for none.
        is_causal: attend only to a token itself and those before.
        scale: factor of scores; None for one over the root of the head size.
    """
    tokens = query.shape[2]
    end = start + tokens if mask is None else mask.shape[1]
    repeats = query.shape[1] // key.shape[1]
    key = key.narrow(2, 0, end).repeat_interleave(repeats, 1)
    value = value.narrow(2, 0, end).repeat_interleave(repeats, 1)
    scores = query @ key.mT * (1 / math.sqrt(query.shape[3]) if scale is None else scale)
    if mask is not None:
        scores = scores + mask
    elif is_causal:
        ahead = torch.arange(end) > torch.arange(start, end)[:, None]
        scores = scores.masked_fill(ahead.reshape(tokens, end), -math.inf)
    return scores.softmax(-1) @ value


def custom_sdpa(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    start_pos: int,
    attn_mask: torch.Tensor | None = None,
    drpout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> torch.Tensor:
    """Attention to caches; all tensors are of shape (batch, tokens, heads, head size)."""
    query, key, value = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    found = _attend(query, key, value, start_pos, attn_mask, is_causal, scale)
    return found.transpose(1, 2).contiguous()


def update_cache(value: torch.Tensor, cache: torch.Tensor, start_pos: int) -> torch.Tensor:
    """Write a value of shape (batch, tokens, ...) into a cache, from a position on."""
    cache.narrow(1, start_pos, value.shape[1]).copy_(value)
    return value.new_zeros(1)


def update_cache_with_indices(
    value: torch.Tensor, cache: torch.Tensor, start_pos: int, indices: torch.Tensor
) -> torch.Tensor:
    """Write each token to its own position, of shape (batch, tokens); ``start_pos`` is ignored."""
    batch = torch.arange(value.shape[0])[:, None].expand_as(indices)
    cache.index_put_((batch, indices), value)
    return value.new_zeros(1)


def sdpa_with_kv_cache(  # noqa: PLR0913  (the arguments of the operator)
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    start_pos: int,
    seq_len: int,
    attn_mask: torch.Tensor | None = None,
    drpout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> torch.Tensor:
    """Write into both caches, then attend to them."""
    update_cache(key, key_cache, start_pos)
    update_cache(value, value_cache, start_pos)
    return custom_sdpa(
        query, key_cache, value_cache, start_pos, attn_mask, drpout_p, is_causal, scale
    )


def custom_quantized_sdpa(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    start_pos: int,
    attn_mask: torch.Tensor | None = None,
    drpout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    *parameters: torch.Tensor | None,
    **named: Any,
) -> torch.Tensor:
    """Attention to int8 values with a zero point and a scale for each row.

    Args:
        query: int8, of shape (batch, tokens, heads, head size), or heads first.
        key: as ``query``.
        value: as ``query``.
        start_pos: position of the first token.
        attn_mask: as for :func:`custom_sdpa`.
        drpout_p: unused.
        is_causal: as for :func:`custom_sdpa`.
        scale: as for :func:`custom_sdpa`.
        parameters: zero points and scales of query, key and value, then ``is_seq_at_dim_2``.
        named: the same by name.
    """
    names = ("q_zero_points", "q_scales", "k_zero_points", "k_scales", "v_zero_points", "v_scales",
             "is_seq_at_dim_2")  # fmt: skip
    given = dict(zip(names, parameters, strict=False)) | named
    is_heads_first = bool(given.get("is_seq_at_dim_2", False))
    decoded = []
    for name, codes in (("q", query), ("k", key), ("v", value)):
        zero, step = given[f"{name}_zero_points"], given[f"{name}_scales"]
        rows = (codes.to(torch.float32) - zero.to(torch.float32)) * step
        decoded.append(rows if is_heads_first else rows.transpose(1, 2))
    result = _attend(decoded[0], decoded[1], decoded[2], start_pos, attn_mask, is_causal, scale)
    return result if is_heads_first else result.transpose(1, 2).contiguous()


def fast_hadamard_transform(mat: torch.Tensor) -> torch.Tensor:
    """Multiply rows, whose length is a power of two, by the orthonormal Hadamard matrix."""
    size = mat.shape[-1]
    result = mat.reshape(-1, size)
    width = 1
    while width < size:
        pairs = result.reshape(-1, size // (2 * width), 2, width)
        first, second = pairs[:, :, 0], pairs[:, :, 1]
        result = torch.stack([first + second, first - second], 2).reshape(-1, size)
        width *= 2
    return (result / math.sqrt(size)).reshape(mat.shape)


def gated_delta_rule(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    decay: torch.Tensor,
    beta: torch.Tensor,
    initial_state: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gated delta rule, token by token; a kernel that takes many at once rounds otherwise.

    Args:
        query: of shape (batch, heads, tokens, key size).
        key: of shape (batch, state heads, tokens, key size).
        value: of shape (batch, state heads, tokens, value size).
        decay: factor of the state: of shape (batch, state heads, tokens), or with the key size.
        beta: rate of each token, of shape (batch, state heads, tokens).
        initial_state: of shape (batch, state heads, key size, value size).

    Returns:
        The outputs, (batch, heads, tokens, value size), and the state behind the last token.
    """
    repeats = query.shape[1] // key.shape[1]
    factors = decay[..., None].expand_as(key) if decay.dim() == 3 else decay
    state, outputs = initial_state, []
    for token in range(query.shape[2]):
        now = key[:, :, token, :, None]
        state = state * factors[:, :, token, :, None]
        delta = (value[:, :, token] - (state * now).sum(-2)) * beta[:, :, token, None]
        state = state + now * delta[:, :, None]
        seen = state.repeat_interleave(repeats, 1) * query[:, :, token, :, None]
        outputs.append(seen.sum(-2))
    return torch.stack(outputs, 2), state


def _embed(
    bits: int,
    weight: torch.Tensor,
    scales: torch.Tensor,
    zero_points: torch.Tensor | None,
    lowest: int,
    highest: int,
    indices: torch.Tensor,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Decode the rows that are looked up.

    Args:
        bits: of a code; codes of fewer than 8 bits are packed into bytes and are unsigned.
        weight: codes, of shape (rows, bytes).
        scales: of shape (rows,), or (rows, groups) for equal groups of a row.
        zero_points: as ``scales``; None for zero.
        lowest: the lowest code.
        highest: the highest code.
        indices: rows to look up, of any shape.
        dtype: of the result, which the oracle knows.
    """
    codes = weight[indices].to(torch.int32)
    if bits == 4:  # the first code of a byte is in the high bits
        codes = torch.stack([codes // 16, codes % 16], -1).flatten(-2) - 8
    elif bits == 2:  # the first code of a byte is in the low bits
        codes = torch.stack([codes // 4**place % 4 for place in range(4)], -1).flatten(-2) - 2
    groups = scales.shape[1] if scales.dim() == 2 else 1
    rows = codes.reshape(*indices.shape, groups, -1)
    step = scales[indices].reshape(*indices.shape, groups, 1)
    if zero_points is not None:
        zero = zero_points[indices].reshape(*indices.shape, groups, 1)
        rows = rows - zero
    return torch.flatten(rows * step, -2)


COMPOSITIONS: Mapping[str, Callable[..., Any]] = {
    "quantized_decomposed::embedding_byte": functools.partial(_embed, 8),
    "quantized_decomposed::embedding_4bit": functools.partial(_embed, 4),
    "quantized_decomposed::embedding_2bit": functools.partial(_embed, 2),
    "llama::custom_sdpa": custom_sdpa,
    "llama::custom_quantized_sdpa": custom_quantized_sdpa,
    "llama::sdpa_with_kv_cache": sdpa_with_kv_cache,
    "llama::update_cache": update_cache,
    "llama::update_cache_with_indices": update_cache_with_indices,
    "llama::fast_hadamard_transform": fast_hadamard_transform,
    "llama::gated_delta_rule": gated_delta_rule,
    "llama::channelwise_gated_delta_rule": gated_delta_rule,
}
"""The functions by operator, ``namespace::name``."""
