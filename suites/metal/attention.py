"""Attention: layouts, shared heads, masks, head dimensions, lengths.

The runtime has kernels for the head dimensions 64, 96, 128 and 256. They support any strides except
in the last dimension, and index the mask by the number of the head.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from harness import Case
from suites.build import Input, bools, op, randn
from suites.metal.only import on_metal

Tensor = torch.Tensor


def _sdpa(
    name: str,
    *inputs: Input,
    function: Callable[..., Tensor] = F.scaled_dot_product_attention,
    **options: Any,
) -> Case:
    return op(f"scaled_dot_product_attention/{name}", function, *inputs, **options)


def _three(*shape: int) -> tuple[Input, Input, Input]:
    return (randn(*shape),) * 3


def _heads_last(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    """Attention of (B, L, H, D) operands, the layout of projections."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, **options).transpose(1, 2)


def _projected(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """Heads cut from (B, L, H * D) after a kernel."""
    q, k, v = (t.sin().view(1, -1, 2, 64).transpose(1, 2) for t in (x, y, z))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def _packed(x: Tensor) -> Tensor:
    """Heads cut from one tensor of queries, keys and values."""
    q, k, v = x.view(1, -1, 3, 2, 64).permute(2, 0, 3, 1, 4)
    return F.scaled_dot_product_attention(q, k, v)


def _packed_computed(x: Tensor) -> Tensor:
    return _packed(x.sin())


def _chunked(x: Tensor) -> Tensor:
    q, k, v = (t.view(1, -1, 2, 64).transpose(1, 2) for t in x.chunk(3, -1))
    return F.scaled_dot_product_attention(q, k, v)


def _broadcast(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """One head of keys and values for all, as a view."""
    batch, heads, _, size = q.shape
    k, v = (x.expand(batch, heads, x.shape[2], size) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v)


def _last_strided(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Keys whose last dimension is not the innermost."""
    return F.scaled_dot_product_attention(q, k.transpose(-1, -2), v)


def _visible(mask: Tensor) -> Tensor:
    """A bool mask that shows every query its first key: without one the result is undefined."""
    first = torch.arange(mask.shape[-1], device=mask.device) == 0
    return mask | first


def _bool_mask(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, _visible(mask))


def _expanded_mask(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    expanded = mask.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    return F.scaled_dot_product_attention(q, k, v, expanded)


def _transposed_mask(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, mask.transpose(-1, -2))


def _float_mask(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """A float32 mask with queries of any dtype."""
    return F.scaled_dot_product_attention(q, k, v, mask.float().to(q.dtype))


HEAD_DIMS = [
    _sdpa(f"head_dim_{size}", *_three(1, 2, 5, size))
    for size in (8, 32, 64, 72, 80, 96, 100, 128, 192, 256, 512)
]

LAYOUTS = [
    _sdpa("contiguous_batch_2", *_three(2, 3, 5, 64)),
    _sdpa("one_query", randn(1, 2, 1, 64), randn(1, 2, 7, 64), randn(1, 2, 7, 64)),
    _sdpa("more_keys", randn(1, 2, 5, 64), randn(1, 2, 9, 64), randn(1, 2, 9, 64)),
    _sdpa("more_queries", randn(1, 2, 9, 64), randn(1, 2, 5, 64), randn(1, 2, 5, 64)),
    _sdpa("long", *_three(1, 1, 70, 64)),
    _sdpa("scaled", *_three(1, 2, 5, 64), scale=0.3),
    _sdpa("heads_last", *_three(2, 5, 3, 64), function=_heads_last),
    _sdpa("heads_last_batch_1", *_three(1, 5, 3, 64), function=_heads_last),
    _sdpa("heads_of_projections", *_three(1, 5, 128), function=_projected),
    _sdpa("one_projection", randn(1, 5, 384), function=_packed),
    _sdpa("one_projection_after_kernel", randn(1, 5, 384), function=_packed_computed),
    _sdpa("chunks_of_projection", randn(1, 5, 384), function=_chunked),
    _sdpa("broadcast_keys", randn(2, 3, 5, 64), randn(2, 1, 7, 64), randn(2, 1, 7, 64),
          function=_broadcast),
    _sdpa("broadcast_keys_over_batch", randn(2, 3, 5, 64), randn(1, 1, 7, 64),
          randn(1, 1, 7, 64), function=_broadcast),
    _sdpa("last_stride_not_one", randn(1, 2, 5, 64), randn(1, 2, 64, 7), randn(1, 2, 7, 64),
          function=_last_strided),
    _sdpa("inputs_heads_last", *[randn(1, 2, 5, 64).transposed(1, 2)] * 3),
    _sdpa("three_dimensions", *_three(2, 5, 64)),
    _sdpa("values_of_other_size", randn(1, 2, 5, 64), randn(1, 2, 5, 64), randn(1, 2, 5, 128)),
]  # fmt: skip

GROUPED = [
    _sdpa(f"shared_keys_{name}", randn(batch, heads, 5, 64), randn(batch, shared, 7, 64),
          randn(batch, shared, 7, 64), enable_gqa=True)
    for name, batch, heads, shared in (("2_of_4", 1, 4, 2), ("1_of_4", 1, 4, 1),
                                       ("2_of_6_batch_2", 2, 6, 2), ("all", 1, 2, 2))
]  # fmt: skip

CAUSAL = [
    _sdpa("causal_square", *_three(1, 2, 6, 64), is_causal=True),
    _sdpa("causal_batch_2", *_three(2, 2, 6, 64), is_causal=True),
    _sdpa("causal_heads_last", *_three(1, 6, 2, 64), function=_heads_last, is_causal=True),
    _sdpa("causal_longer_keys", randn(1, 2, 4, 64), randn(1, 2, 7, 64), randn(1, 2, 7, 64),
          is_causal=True),
    _sdpa("causal_longer_queries", randn(1, 2, 7, 64), randn(1, 2, 4, 64), randn(1, 2, 4, 64),
          is_causal=True),
    _sdpa("causal_shared_keys", randn(1, 4, 6, 64), randn(1, 2, 6, 64), randn(1, 2, 6, 64),
          is_causal=True, enable_gqa=True),
]  # fmt: skip

_QKV = (randn(2, 3, 5, 64), randn(2, 3, 7, 64), randn(2, 3, 7, 64))
_ONE = (randn(1, 3, 5, 64), randn(1, 3, 7, 64), randn(1, 3, 7, 64))
MASKS: dict[str, tuple[int, ...]] = {
    "2d": (5, 7),
    "one_row": (1, 7),
    "one_column": (5, 1),
    "3d": (1, 5, 7),
    "a_head_each": (3, 5, 7),
    "4d_for_all": (1, 1, 5, 7),
    "4d_one_row": (1, 1, 1, 7),
    "4d_full": (2, 3, 5, 7),
    "a_batch_each": (2, 1, 5, 7),
    "padding_of_batches": (2, 1, 1, 7),
    "4d_a_head_each": (1, 3, 5, 7),
}

MASKED = [
    *(_sdpa(f"additive_{name}", *_QKV, randn(*shape)) for name, shape in MASKS.items()),
    *(_sdpa(f"bool_{name}", *_QKV, bools(*shape), function=_bool_mask)
      for name, shape in MASKS.items()),
    *(_sdpa(f"{kind}_batch_1_{name}", *_ONE, mask, **options)
      for kind, make, options in (("additive", randn, {}),
                                  ("bool", bools, {"function": _bool_mask}))
      for name, mask in (("full", make(1, 3, 5, 7)), ("all_heads", make(1, 1, 5, 7)))),
    _sdpa("additive_expanded", *_QKV, randn(1, 1, 5, 7), function=_expanded_mask),
    _sdpa("additive_expanded_rows", *_QKV, randn(2, 1, 1, 7), function=_expanded_mask),
    _sdpa("additive_expanded_batch_1", *_ONE, randn(1, 1, 1, 7), function=_expanded_mask),
    _sdpa("additive_transposed", *_QKV, randn(7, 5), function=_transposed_mask),
    _sdpa("additive_from_float32", *_QKV, randn(5, 7), function=_float_mask),
    _sdpa("additive_shared_keys", randn(1, 4, 5, 64), randn(1, 2, 7, 64), randn(1, 2, 7, 64),
          randn(5, 7), enable_gqa=True),
]  # fmt: skip

CASES: list[Case] = on_metal(*HEAD_DIMS, *LAYOUTS, *GROUPED, *CAUSAL, *MASKED)
