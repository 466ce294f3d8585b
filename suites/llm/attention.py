"""Attention over caches: ``custom_sdpa``, ``sdpa_with_kv_cache``, cache updates, int8 attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from harness import Case
from suites.llm.only import TARGETS, check_position, load_operators

CAPACITY = 16


class Attention(nn.Module):
    """Attention of one layer that keeps its keys and values.

    Args:
        heads: number of query heads.
        key_heads: number of heads of keys and values.
        is_causal: attend to earlier tokens only.
        with_mask: pass a mask instead.
        scale: factor of scores; None for the default.
        in_one: call ``sdpa_with_kv_cache``, which writes the caches itself.
        by_index: write each token to its own position.
    """

    def __init__(
        self,
        heads: int = 4,
        key_heads: int = 4,
        *,
        is_causal: bool = True,
        with_mask: bool = False,
        scale: float | None = None,
        in_one: bool = False,
        by_index: bool = False,
    ) -> None:
        super().__init__()
        self.heads, self.key_heads, self.scale = heads, key_heads, scale
        self.is_causal, self.with_mask = is_causal and not with_mask, with_mask
        self.in_one, self.by_index = in_one, by_index
        self.query = nn.Linear(32, heads * 8)
        self.key, self.value = nn.Linear(32, key_heads * 8), nn.Linear(32, key_heads * 8)
        self.out = nn.Linear(heads * 8, 32)
        shape = (1, CAPACITY, key_heads, 8)
        self.register_buffer("keys", torch.zeros(shape))
        self.register_buffer("values", torch.zeros(shape))
        self.register_buffer("mask", torch.randn(CAPACITY, CAPACITY))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        ops, tokens = torch.ops.llama, x.shape[1]
        start = position[0].item()
        check_position(start, tokens, CAPACITY)
        query = self.query(x).view(1, tokens, self.heads, 8)
        key = self.key(x).view(1, tokens, self.key_heads, 8)
        value = self.value(x).view(1, tokens, self.key_heads, 8)
        mask = None
        if self.with_mask:
            mask = self.mask.narrow(0, start, tokens)
        rest = (mask, 0.0, self.is_causal, self.scale)
        if self.in_one:
            caches = (self.keys, self.values)
            found = ops.sdpa_with_kv_cache(query, key, value, *caches, start, tokens, *rest)
        else:
            for new, cache in ((key, self.keys), (value, self.values)):
                if self.by_index:
                    ops.update_cache_with_indices(new, cache, start, position[None, :tokens])
                else:
                    ops.update_cache(new, cache, start)
            found = ops.custom_sdpa(query, self.keys, self.values, start, *rest)
        return self.out(found.reshape(1, tokens, self.heads * 8))


class QuantizedAttention(nn.Module):
    """Attention over int8 values with a zero point and a scale for each row."""

    def __init__(self, key_heads: int = 4, *, heads_first: bool = False) -> None:
        super().__init__()
        self.heads_first = heads_first
        for name, heads in (("q", 4), ("k", key_heads), ("v", key_heads)):
            tokens = 3 if name == "q" else CAPACITY
            shape = (1, heads, tokens) if heads_first else (1, tokens, heads)
            self.register_buffer(f"{name}_codes", _draw_codes(*shape, 8))
            self.register_buffer(f"{name}_zero", _draw_codes(*shape, 1))
            self.register_buffer(f"{name}_scale", 0.01 + torch.rand(*shape, 1) / 20)

    def forward(self, factor: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        start = position[0].item()
        check_position(start, 3, CAPACITY)
        found = torch.ops.llama.custom_quantized_sdpa(
            self.q_codes, self.k_codes, self.v_codes, start, None, 0.0, True, None,
            self.q_zero, self.q_scale * factor, self.k_zero, self.k_scale, self.v_zero,
            self.v_scale, self.heads_first,
        )  # fmt: skip
        return found * factor


def _draw_codes(*shape: int) -> torch.Tensor:
    return torch.randint(-100, 100, shape, dtype=torch.int8)


def _case(
    name: str,
    make: Callable[[], nn.Module],
    first: Callable[[], tuple[Any, ...]],
    calls: Callable[[], Sequence[tuple[Any, ...]]] | None = None,
) -> Case:
    def build() -> tuple[nn.Module, tuple[Any, ...]]:
        load_operators()
        return make(), first()

    return Case(f"llm_attention/{name}", build, calls=calls, targets=TARGETS,
                tags=frozenset({"llm"}))  # fmt: skip


def _step(position: int, tokens: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(1, tokens, 32), torch.arange(position, position + tokens)


def _decode(name: str, make: Callable[[], nn.Module]) -> Case:
    """Three tokens, one after the other."""
    return _case(name, make, lambda: _step(0), lambda: [_step(1), _step(2)])


def _prefill(name: str, make: Callable[[], nn.Module], start: int = 0) -> Case:
    """Five tokens at once, and five more behind them."""
    return _case(name, make, lambda: _step(start, 5), lambda: [_step(start + 5, 5)])


_PLAIN = ("llm_attention/decode", "llm_attention/prefill_grouped", "llm_attention/quantized")

CASES = [
    replace(case, plain_targets="*" if case.name in _PLAIN else "")
    for case in (
        _decode("decode", Attention),
        _decode("decode_grouped", lambda: Attention(4, 2)),
        _decode("decode_one_key_head", lambda: Attention(4, 1)),
        _decode("decode_scale", lambda: Attention(scale=0.2)),
        _decode("decode_in_one", lambda: Attention(in_one=True)),
        _decode("decode_by_index", lambda: Attention(by_index=True)),
        _prefill("prefill", Attention),
        _prefill("prefill_grouped", lambda: Attention(4, 2)),
        _prefill("prefill_not_causal", lambda: Attention(is_causal=False)),
        _prefill("prefill_mask", lambda: Attention(with_mask=True)),
        _prefill("prefill_mask_grouped", lambda: Attention(4, 2, with_mask=True)),
        _prefill("prefill_in_one", lambda: Attention(4, 2, in_one=True)),
        _prefill("prefill_by_index", lambda: Attention(4, 2, by_index=True)),
        _prefill("prefill_behind_others", Attention, start=3),
        *(
            _case(name, make, lambda: (torch.rand(1) + 0.5, torch.tensor([0])),
                  lambda: [(torch.rand(1) + 0.5, torch.tensor([at])) for at in (4, 12)])
            for name, make in (
                ("quantized", QuantizedAttention),
                ("quantized_grouped", lambda: QuantizedAttention(2)),
                ("quantized_heads_first", lambda: QuantizedAttention(heads_first=True)),
            )
        ),
    )
]  # fmt: skip
