"""Quantized embeddings, Hadamard transforms and gated delta rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from harness import Case
from suites.llm.only import TARGETS, load_operators


class Embedding(nn.Module):
    """Embedding with a table of 2, 4 or 8 bit codes.

    Args:
        bits: of a code.
        groups: scales of a row.
        with_zero_points: codes have an offset.
        dtype: of scales and result.
    """

    def __init__(
        self,
        bits: int,
        groups: int = 1,
        *,
        with_zero_points: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.bits, self.dtype = bits, dtype
        kind = torch.int8 if bits == 8 else torch.uint8
        limits = torch.iinfo(kind)
        shape = (12, 32 * bits // 8)
        self.register_buffer("codes", torch.randint(limits.min, limits.max, shape, dtype=kind))
        shape = (12, groups) if groups > 1 else (12,)
        self.register_buffer("scales", (torch.rand(shape) + 0.1).to(dtype))
        zero = torch.randint(-3, 3, shape).to(dtype) if with_zero_points else None
        self.register_buffer("zero_points", zero)

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        name = "embedding_byte" if self.bits == 8 else f"embedding_{self.bits}bit"
        operator = getattr(torch.ops.quantized_decomposed, name).dtype
        low, high = -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1
        found: torch.Tensor = operator(
            self.codes, self.scales, self.zero_points, low, high, indices, dtype=self.dtype
        )
        return found


class Hadamard(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.ops.llama.fast_hadamard_transform(x)
        return found


class DeltaRule(nn.Module):
    """A gated delta rule that keeps its state from call to call, from zero on.

    Args:
        state_heads: number of heads of keys, values and states; there are four of queries.
        by_channel: one decay for each element of a key.
    """

    def __init__(self, state_heads: int = 4, *, by_channel: bool = False) -> None:
        super().__init__()
        self.name = "channelwise_gated_delta_rule" if by_channel else "gated_delta_rule"
        self.register_buffer("state", torch.zeros(1, state_heads, 8, 8))

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        decay: torch.Tensor,
        rate: torch.Tensor,
    ) -> torch.Tensor:
        operator = getattr(torch.ops.llama, self.name)
        found, state = operator(query, key, value, decay, rate, self.state)
        self.state.copy_(state)
        output: torch.Tensor = found
        return output


def _case(name: str, make: Callable[[], nn.Module], *draw: Callable[[], Any]) -> Case:
    """Make a case with two calls of inputs drawn alike."""

    def build() -> tuple[nn.Module, tuple[Any, ...]]:
        load_operators()
        return make(), tuple(each() for each in draw)

    return Case(
        f"llm_operators/{name}",
        build,
        calls=lambda: [tuple(each() for each in draw)],
        targets=TARGETS,
        plain_targets="portable:fp32" if name in _PLAIN else "",
        tags=frozenset({"llm"}),
    )


_PLAIN = ("embedding_4bit_groups", "delta_rule")


def _tokens() -> torch.Tensor:
    return torch.randint(12, (2, 5))


def _rows(*shape: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randn(shape)


def _gates(*shape: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.rand(shape)


def _delta(name: str, heads: int, tokens: int, by_channel: bool) -> Case:
    size = (1, heads, tokens)
    decay = _gates(*size, 8) if by_channel else _gates(*size)
    return _case(
        name,
        lambda: DeltaRule(heads, by_channel=by_channel),
        _rows(1, 4, tokens, 8),
        lambda: nn.functional.normalize(torch.randn(*size, 8), dim=-1),
        _rows(*size, 8),
        decay,
        _gates(*size),
    )


CASES = [
    *(
        _case(f"embedding_{bits}bit{suffix}", make, _tokens)
        for bits in (2, 4, 8)
        for suffix, make in (
            ("", lambda bits=bits: Embedding(bits)),
            ("_groups", lambda bits=bits: Embedding(bits, 4)),
            ("_zero_points", lambda bits=bits: Embedding(bits, 2, with_zero_points=True)),
            ("_fp16", lambda bits=bits: Embedding(bits, 2, dtype=torch.float16)),
            ("_bf16", lambda bits=bits: Embedding(bits, 2, dtype=torch.bfloat16)),
        )
    ),
    _case("hadamard_8", Hadamard, _rows(3, 8)),
    _case("hadamard_128", Hadamard, _rows(2, 3, 128)),
    _delta("delta_rule", 4, 3, by_channel=False),
    _delta("delta_rule_grouped", 2, 5, by_channel=False),
    _delta("delta_rule_by_channel", 4, 3, by_channel=True),
    # With 35 tokens the kernel's error reaches 1.9 times the bound: it takes many tokens at once.
    _delta("delta_rule_by_channel_grouped", 2, 16, by_channel=True),
]
