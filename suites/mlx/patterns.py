"""Patterns that the lowering replaces by one instruction: norms, rotations, attention.

RMS norms and repeated heads are matched by the structure of their graph. This suite has graphs that
must match and similar graphs that must not; ``backends/mlx/tests/test_patterns.py`` asserts which
ones match. The rotary embedding is one of upstream's operators.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch.export import Dim

from harness import Case
from suites.build import Input, full, nn_case, op, randn, uniform
from suites.mlx.only import number, on_mlx

_LENGTH = Dim("length", min=2, max=16)


class Weighted(torch.nn.Module):
    """Calls a function on a weight and one or two inputs."""

    def __init__(self, function: Callable[..., torch.Tensor], *shape: int) -> None:
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.rand(shape) + 0.5)

    def forward(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        return self.function(self.weight, x, *(() if other is None else (other,)))


def _inverse_rms(x: torch.Tensor, dim: Any = -1, epsilon: float = 1e-5) -> torch.Tensor:
    return torch.rsqrt(x.pow(2).mean(dim, keepdim=True) + epsilon)


def _norm(weight: torch.Tensor, x: torch.Tensor, epsilon: float = 1e-5) -> torch.Tensor:
    wide = x.float()
    return weight * (wide * _inverse_rms(wide, epsilon=epsilon)).to(x.dtype)


def _rms(name: str, function: Callable[..., torch.Tensor], *inputs: Input, **options: Any) -> Case:
    layer = partial(Weighted, function, 8)
    return nn_case(f"rms_norm/{name}", layer, *(inputs or [randn(2, 3, 8)]), **options)


FUSED = [
    _rms("cast", _norm),
    _rms("cast_weight_last",
         lambda w, x: (lambda wide: (wide * _inverse_rms(wide)).to(x.dtype) * w)(x.float())),
    _rms("cast_large_epsilon", partial(_norm, epsilon=0.5)),
    _rms("cast_one_plus_weight", lambda w, x: _norm(1.0 + w, x)),
    _rms("cast_residual", lambda w, x: x + _norm(w, x)),
    _rms("cast_twice", lambda w, x: _norm(w, _norm(w, x) + x)),
    _rms("cast_dynamic", _norm, dynamic_shapes=({1: _LENGTH},),
         calls=[(randn(2, length, 8),) for length in (2, 16)]),
]  # fmt: skip
"""Norms that are replaced, on all targets."""

FUSED_FP32 = [
    _rms("no_cast", lambda w, x: w * (x * _inverse_rms(x))),
    _rms("weight_is_input", lambda w, x, y: y * (x * _inverse_rms(x)), randn(2, 3, 8), randn(8)),
]
"""Norms that are replaced if the epsilon needs no conversion to the norm's dtype."""

NOT_FUSED = [
    _rms("cubes", lambda w, x: w * (x * torch.rsqrt(x.abs().pow(3).mean(-1, keepdim=True) + 1.0))),
    _rms("inverse_first", lambda w, x: w * (_inverse_rms(x) * x)),
    _rms("epsilon_in_a_tensor",
         lambda w, x, e: w * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + e)),
         randn(2, 3, 8), uniform(0.1, 0.5, 1)),
    _rms("result_used_twice", lambda w, x: (lambda y: w * y + y)(x * _inverse_rms(x))),
]  # fmt: skip
"""Norms that stay as they are."""

LOOK_ALIKES = [
    _rms("mean_over_other_dim", lambda w, x: w * (x * _inverse_rms(x, 1)), randn(2, 8, 8)),
    _rms("mean_over_two_dims", lambda w, x: w * (x * _inverse_rms(x, (1, 2)))),
    _rms("mean_of_other_tensor", lambda w, x, y: w * (y * _inverse_rms(x)), randn(2, 3, 8),
         randn(2, 3, 8)),
    _rms("mean_without_keepdim",
         lambda w, x: w * (x * torch.rsqrt(x.pow(2).mean(-1) + 1e-5)), randn(8, 8)),
    _rms("weight_for_all", lambda w, x, y: y * (x * _inverse_rms(x)), randn(2, 3, 8), randn(1)),
    _rms("weight_is_number", lambda w, x: 3.0 * (x * _inverse_rms(x)) + w),
    _rms("weight_for_each", lambda w, x, y: y * (x * _inverse_rms(x)), randn(2, 3, 8),
         randn(2, 3, 8)),
    _rms("result_stays_float32",
         lambda w, x: (lambda wide: w.float() * (wide * _inverse_rms(wide)))(x.float())),
]  # fmt: skip
"""Functions that are not an RMS norm over the last dimension."""


class Rope(torch.nn.Module):
    """Rotary embedding from a position that is read from a tensor."""

    def __init__(self, dims: int, freqs: Input | None, options: dict[str, Any]) -> None:
        super().__init__()
        self.dims = dims
        self.options = {"traditional": False, "base": 10000.0, "scale": 1.0, **options}
        self.register_buffer("freqs", None if freqs is None else freqs.make())

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        start: Any = position.item()
        torch._check(start >= 0)
        rotated: torch.Tensor = torch.ops.mlx.rope(
            x, self.dims, start, *self.options.values(), self.freqs
        )
        return rotated


class RopeAtThree(torch.nn.Module):
    """Rotary embedding at a position that is part of the program."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rotated: torch.Tensor = torch.ops.mlx.rope(x, 8, 3)
        return rotated


def _rope(
    name: str,
    *shape: int,
    at: int | Input = 3,
    dims: int = 8,
    freqs: Input | None = None,
    calls: Any = (),
    dynamic_shapes: Any = None,
    **options: Any,
) -> Case:
    x = randn(*(shape or (1, 2, 5, 8)))
    first = number(at) if isinstance(at, int) else at
    more = [(x.sized(1, 2, length, 8), number(position)) for length, position in calls]
    layer = partial(Rope, dims, freqs, options)
    return nn_case(f"rope/{name}", layer, x, first, calls=more, dynamic_shapes=dynamic_shapes)


_FREQS = uniform(1.0, 1000.0, 4)

ROPE = [
    _rope("plain", calls=[(5, 0), (5, 100), (5, 4000)]),
    _rope("traditional", traditional=True),
    _rope("some_dims", dims=4),
    _rope("some_dims_traditional", dims=4, traditional=True),
    _rope("base", base=500000.0),
    _rope("scale", scale=0.25),
    _rope("freqs", freqs=_FREQS),
    _rope("freqs_traditional_scale", freqs=_FREQS, traditional=True, scale=0.5),
    _rope("freqs_a_row_each", freqs=uniform(0.0, 3.0, 5, 4)),
    _rope("batch", 3, 2, 5, 8),
    _rope("one_token", 1, 2, 1, 8, calls=[(1, 4), (1, 5)]),
    _rope("position_int32", at=full(3, 1, dtype=torch.int32)),
    _rope("dynamic", calls=[(2, 0), (16, 7)], dynamic_shapes=({2: _LENGTH}, None)),
    nn_case("rope/position_is_literal", RopeAtThree, randn(1, 2, 5, 8)),
]


def _qkv(keys: int = 5, kv_heads: int = 4, queries: int = 5) -> tuple[Input, Input, Input]:
    kv = randn(1, kv_heads, keys, 8)
    return randn(1, 4, queries, 8), kv, kv


def _repeated(x: torch.Tensor) -> torch.Tensor:
    """Each head twice, as in Hugging Face's models."""
    batch, heads, length, width = x.shape
    return x[:, :, None].expand(batch, heads, 2, length, width).reshape(batch, -1, length, width)


def _repeated_keys(x: torch.Tensor) -> torch.Tensor:
    """All keys twice, one copy after the other: only the last operation differs."""
    batch, heads, length, width = x.shape
    return x[:, :, None].expand(batch, heads, 2, length, width).reshape(batch, heads, -1, width)


def _repeated_batch(x: torch.Tensor) -> torch.Tensor:
    """Each head twice, and two batches out of one."""
    _, heads, length, width = x.shape
    return x[:, :, None].expand(2, heads, 2, length, width).reshape(2, -1, length, width)


def _each_row(*shape: int) -> Input:
    """A mask that leaves at least one element in every row."""

    def draw(size: tuple[int, ...]) -> torch.Tensor:
        return (torch.rand(size) < 0.5) | torch.eye(size[-2], size[-1]).bool()

    return Input(shape, draw, torch.bool)


def _masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> Any:
    return F.scaled_dot_product_attention(q, k, v, mask)


def _attend(
    name: str, *inputs: Input, by: Callable[..., Any] = F.scaled_dot_product_attention, **more: Any
) -> Case:
    return op(f"scaled_dot_product_attention/{name}", by, *inputs, **more)


_ATTEND = F.scaled_dot_product_attention
_causal = partial(_ATTEND, is_causal=True)

ONE_ATTENTION = [
    _attend("causal_more_keys", *_qkv(9), by=_causal),
    _attend("causal_one_query", *_qkv(9, queries=1), by=_causal),
    _attend("causal_dynamic", *_qkv(), by=_causal, dynamic_shapes=({2: _LENGTH},) * 3,
            calls=[_qkv(length, queries=length) for length in (2, 16)]),
    _attend("causal_dynamic_keys", *_qkv(9, queries=2), by=_causal,
            dynamic_shapes=(None, {2: _LENGTH}, {2: _LENGTH}),
            calls=[_qkv(keys, queries=2) for keys in (2, 16)]),
    _attend("bool_mask_each_head", *_qkv(), _each_row(1, 4, 5, 5), by=_masked),
    _attend("bool_mask_no_batch", *_qkv(), _each_row(4, 5, 5), by=_masked),
    _attend("additive_mask_a_key", *_qkv(), randn(1, 4, 1, 5), by=_masked),
    _attend("additive_mask_infinite", *_qkv(), _each_row(5, 5),
            by=lambda q, k, v, m: _ATTEND(q, k, v, torch.where(m, 0.0, -torch.inf).to(q.dtype))),
    _attend("grouped_causal", *_qkv(kv_heads=2), by=partial(_causal, enable_gqa=True)),
    _attend("one_kv_head", *_qkv(kv_heads=1)),
    _attend("repeat_interleave", *_qkv(kv_heads=2),
            by=lambda q, k, v: _ATTEND(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))),
    _attend("repeated_heads", *_qkv(kv_heads=2),
            by=lambda q, k, v: _ATTEND(q, _repeated(k), _repeated(v))),
    _attend("repeated_heads_dynamic", *_qkv(kv_heads=2),
            by=lambda q, k, v: _causal(q, _repeated(k), _repeated(v)),
            dynamic_shapes=({2: _LENGTH},) * 3,
            calls=[_qkv(length, 2, length) for length in (2, 16)]),
    _attend("other_value_width", randn(1, 4, 5, 8), randn(1, 4, 7, 8), randn(1, 4, 7, 3)),
    _attend("rank_3", randn(4, 5, 8), randn(4, 7, 8), randn(4, 7, 8)),
    _attend("rank_2_causal", randn(5, 8), randn(5, 8), randn(5, 8), by=_causal),
    _attend("repeated_keys", *_qkv(),
            by=lambda q, k, v: _ATTEND(q, _repeated_keys(k), _repeated_keys(v))),
]  # fmt: skip
"""Attention that becomes one instruction, together with the repetition of its heads."""

SEVERAL_STEPS = [
    _attend("causal_fewer_keys", *_qkv(3), by=_causal),
    _attend("rank_3_causal_more_keys", randn(4, 5, 8), randn(4, 9, 8), randn(4, 9, 8), by=_causal),
    _attend("rank_5", *[randn(2, 1, 4, 5, 8)] * 3),
    _attend("broadcast_batch", randn(2, 4, 5, 8), randn(1, 4, 5, 8), randn(1, 4, 5, 8)),
]
"""Attention that the instruction cannot compute."""

REPEATS_APART = [
    _attend("tiled_heads", *_qkv(kv_heads=2),
            by=lambda q, k, v: _ATTEND(q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1))),
    _attend("repeated_heads_used_twice", *_qkv(kv_heads=2),
            by=lambda q, k, v: (lambda r: (_ATTEND(q, r, _repeated(v)), r))(_repeated(k))),
]  # fmt: skip
"""Attention that becomes one instruction; the repetition of its heads becomes others."""

TAKEN_WRONGLY = [
    _attend("repeated_keys_are_values", *_qkv(),
            by=lambda q, k, v: _ATTEND(q, repeated := _repeated_keys(k), repeated) + v.mean()),
    _attend("repeated_keys_masked", *_qkv(), randn(5, 10),
            by=lambda q, k, v, m: _ATTEND(q, _repeated_keys(k), _repeated_keys(v), m)),
    _attend("repeated_keys_causal", *_qkv(4, queries=8),
            by=lambda q, k, v: _causal(q, _repeated_keys(k), _repeated_keys(v))),
    _attend("repeated_batch", randn(2, 4, 5, 8), randn(1, 2, 5, 8), randn(1, 2, 5, 8),
            by=lambda q, k, v: _ATTEND(q, _repeated_batch(k), _repeated_batch(v))),
    _attend("bool_mask_empty_row", *_qkv(), full(0, 5, 5, dtype=torch.bool), by=_masked),
    _attend("additive_mask_empty_row", *_qkv(), full(-torch.inf, 5, 5), by=_masked),
]  # fmt: skip
"""Attention that becomes one instruction although the instruction computes other values."""

CASES: list[Case] = on_mlx(
    *FUSED, *FUSED_FP32, *NOT_FUSED, *LOOK_ALIKES, *ROPE,
    *ONE_ATTENTION, *SEVERAL_STEPS, *REPEATS_APART, *TAKEN_WRONGLY,
)  # fmt: skip
