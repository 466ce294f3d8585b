"""The runtime's kernels for attention and the gated delta rule: float32 inside."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from harness.numerics.large_tensors.attention import iterate_blocks

EXCLUDED = -1e9
"""Mask values up to this one exclude a key, as ``-inf`` does."""

# Number of scores computed at a time, so that they fit in the CPU's cache.
_SCORES = 2**18
# Unwritten results of up to this many elements are filled with NaN.
_POISONED = 2**24


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: int,
    dropout_mask: Tensor | None,
    scale: float | None,
    enable_gqa: int = 0,
    *,
    first_query_sees_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """Attention over (B, H, L, D), with an additive mask and shared key heads.

    With ``first_query_sees_first``, causal attention follows torch: the first query sees the first
    key. In the runtime, the last query sees the last key.

    Returns:
        The result, (B, H, L, D), and the attention weights, which the kernel allocates and never
        writes: NaN, which makes a use of them visible, or unwritten memory if they are large.
    """
    shared = query.shape[1] // key.shape[1]
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    shape = (*query.shape[:3], key.shape[2])
    additive = None if mask is None else mask.expand(shape)
    result = torch.empty(*shape[:3], value.shape[-1])
    for batch, some, rows in iterate_blocks(shape, key.shape, _SCORES):
        before = 0 if first_query_sees_first else shape[3] - shape[2]
        seen = _seen(rows, before, shape[3]) if is_causal else None
        last = shape[3] if seen is None else seen.shape[1]
        heads = some if shared == 1 else slice(some.start // shared, some.start // shared + 1)
        # The kernel scales the query before the products, with a float32 scale.
        queries = query[batch, some, rows].float() * torch.tensor(factor, dtype=torch.float32)
        weights = queries @ key[batch, heads, :last].float().mT
        if additive is not None:
            added = additive[batch, some, rows, :last].float()
            weights += added
            weights.masked_fill_(~(added > EXCLUDED), -math.inf)
        if seen is not None:
            weights.masked_fill_(~seen, -math.inf)
        # A row without a visible key has the sum 0 and the result 0.
        most = weights.amax(-1, keepdim=True).clamp_min_(torch.finfo(torch.float32).min)
        weights.sub_(most).exp_()
        total = weights.sum(-1, keepdim=True)
        summed = weights @ value[batch, heads, :last].float()
        result[batch, some, rows] = summed / total.where(total != 0, 1e-6)
    return result.to(query.dtype), _unwritten(shape, query.dtype)


def _seen(rows: slice, before: int, keys: int) -> Tensor:
    """Return the mask of visible keys for some queries, up to the last visible key.

    The kernel computes the last key unsigned, so a query that should see no key sees all.

    Args:
        rows: the queries.
        before: number of keys before its own that the first query sees.
        keys: number of keys.
    """
    last = (before + torch.arange(rows.start, rows.stop)[:, None]).clamp_max_(keys - 1)
    last.masked_fill_(last < 0, keys - 1)
    return torch.arange(int(last.max()) + 1) <= last


def _unwritten(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    if math.prod(shape) > _POISONED:
        return torch.empty(shape, dtype=dtype)
    return torch.full(shape, math.nan, dtype=dtype)


def gated_delta_rule(
    query: Tensor, key: Tensor, value: Tensor, gate: Tensor, beta: Tensor, state: Tensor
) -> tuple[Tensor]:
    """Compute the recurrence over time; update ``state`` in place, rounded once at the end.

    Args:
        query: (B, T, Hk, Dk).
        key: (B, T, Hk, Dk).
        value: (B, T, Hv, Dv).
        gate: (B, T, Hv), the factor that the state decays by.
        beta: (B, T, Hv), the factor of the correction.
        state: (B, Hv, Dv, Dk).
    """
    repeats = value.shape[2] // query.shape[2]
    queries, keys = (one.float().repeat_interleave(repeats, 2) for one in (query, key))
    values, gates, betas = value.float(), gate.float(), beta.float()
    now = state.float()
    steps = []
    for step in range(query.shape[1]):
        now = now * gates[:, step, :, None, None]
        against = keys[:, step, :, None, :]
        known = (now * against).sum(-1)
        correction = (values[:, step] - known) * betas[:, step, :, None]
        now = now + against * correction[..., None]
        steps.append((now * queries[:, step, :, None, :]).sum(-1))
    state.copy_(now)
    return (torch.stack(steps, 1).to(query.dtype),)
