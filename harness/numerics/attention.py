"""Attention a few rows at a time: its scores never stand in memory as a whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import torch

NAME = "_scaled_dot_product_flash_attention_for_cpu"
# Scores that are held at a time, in float64 and several times over.
_SCORES = 2**22

Attention = Callable[..., tuple[torch.Tensor, torch.Tensor]]


def in_blocks(attend: Attention) -> Attention:
    """The same attention, with large scores computed in blocks of heads or of rows.

    Args:
        attend: what the operator is made of. Its second result, which no program uses, is empty
            where there are blocks.
    """

    def attention(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        attn_mask: torch.Tensor | None = None,
        scale: float | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        length, keys = query.shape[-2], key.shape[-2]
        if math.prod(query.shape[:2]) * length * keys <= _SCORES:
            return attend(query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)
        if attn_mask is not None:
            attn_mask = attn_mask.expand(*query.shape[:2], length, keys)
        # The layout of the operator's own result.
        out = query.new_empty(length, *query.shape[:2], value.shape[-1]).permute(1, 2, 0, 3)
        for batch, heads, rows in blocks(query.shape[:3], key.shape):
            held = _heads_of(query, key, heads)
            mask = None if attn_mask is None else attn_mask[batch, heads, rows]
            if is_causal:
                hidden = torch.ones(rows.stop - rows.start, keys, dtype=torch.bool)
                hidden = hidden.triu(rows.start + 1)
                mask = torch.zeros_like(hidden, dtype=query.dtype).masked_fill(hidden, -math.inf)
            result, _ = attend(
                query[batch, heads, rows],
                key[batch, held],
                value[batch, held],
                dropout_p,
                attn_mask=mask,
                scale=scale,
            )
            out[batch, heads, rows] = result
        return out, query.new_empty(0)

    return attention


def blocks(query: Sequence[int], key: Sequence[int]) -> Iterator[tuple[slice, slice, slice]]:
    """Batches, heads and rows of a query whose scores are held together.

    Args:
        query: batches, heads and rows of the query.
        key: the same of the keys; where several heads share one, a head is taken at a time.
    """
    batches, heads, length = query[:3]
    at_a_time = max(1, _SCORES // (length * key[2])) if heads == key[1] else 1
    rows = max(1, min(length, _SCORES // key[2]))
    for batch in range(batches):
        for head in range(0, heads, at_a_time):
            for row in range(0, length, rows):
                yield (
                    slice(batch, batch + 1),
                    slice(head, min(head + at_a_time, heads)),
                    slice(row, min(row + rows, length)),
                )


def _heads_of(query: torch.Tensor, key: torch.Tensor, heads: slice) -> slice:
    """The heads of the keys that belong to these of the query."""
    shared = query.shape[1] // key.shape[1]
    return heads if shared == 1 else slice(heads.start // shared, heads.start // shared + 1)
