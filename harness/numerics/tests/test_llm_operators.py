"""Compositions compute what ExecuTorch's own kernels compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from harness.numerics.formats.llm_operators import COMPOSITIONS
from harness.numerics.operators import get_operator


@pytest.fixture(scope="module", autouse=True)
def operators() -> None:
    import executorch.exir.passes
    from executorch.extension.llm.custom_ops import custom_ops

    del custom_ops, executorch
    torch.manual_seed(0)


def _attention(
    key_heads: int = 4, tokens: int = 3
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    caches = torch.randn(2, 2, 16, key_heads, 8)
    return torch.randn(2, tokens, 4, 8), caches[0].contiguous(), caches[1].contiguous()


def _gates(heads: int, *more: int) -> tuple[torch.Tensor, ...]:
    size = (2, heads, 5)
    key = torch.nn.functional.normalize(torch.randn(*size, 8), dim=-1)
    rest = (torch.rand(*size, *more), torch.rand(size), torch.randn(2, heads, 8, 6))
    return (torch.randn(2, 4, 5, 8), key, torch.randn(*size, 6), *rest)


def _codes(kind: torch.dtype, columns: int) -> torch.Tensor:
    limits = torch.iinfo(kind)
    return torch.randint(limits.min, limits.max + 1, (12, columns), dtype=kind)


_INDICES = torch.tensor([[0, 11], [3, 3]])

CALLS: list[tuple[str, Callable[[], tuple[Any, ...]]]] = [
    ("llama::custom_sdpa", lambda: (*_attention(), 4, None, 0.0, True)),
    ("llama::custom_sdpa", lambda: (*_attention(2), 0, None, 0.0, True, 0.3)),
    ("llama::custom_sdpa", lambda: (*_attention(1), 13, None, 0.0, False)),
    ("llama::custom_sdpa", lambda: (*_attention(2), 0, torch.randn(3, 16), 0.0, False)),
    ("llama::fast_hadamard_transform", lambda: (torch.randn(3, 64),)),
    ("llama::gated_delta_rule", lambda: _gates(4)),
    ("llama::gated_delta_rule", lambda: _gates(2)),
    ("llama::channelwise_gated_delta_rule", lambda: _gates(2, 8)),
    ("quantized_decomposed::embedding_byte",
     lambda: (_codes(torch.int8, 32), torch.rand(12, 4), None, -128, 127, _INDICES)),
    ("quantized_decomposed::embedding_4bit",
     lambda: (_codes(torch.uint8, 16), torch.rand(12), torch.rand(12), -8, 7, _INDICES)),
    ("quantized_decomposed::embedding_2bit",
     lambda: (_codes(torch.uint8, 8), torch.rand(12, 2), None, -2, 1, _INDICES)),
]  # fmt: skip


def _find(name: str) -> Any:
    namespace, _, base = name.partition("::")
    return getattr(getattr(torch.ops, namespace), base).default


@pytest.mark.parametrize(("name", "draw"), CALLS)
def test_a_composition_equals_its_kernel(name: str, draw: Callable[[], tuple[Any, ...]]) -> None:
    arguments = draw()
    wanted, found = _find(name)(*arguments), COMPOSITIONS[name](*arguments)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("in_one", [False, True])
def test_caches_are_written(in_one: bool) -> None:
    query, keys, values = _attention(2)
    new = torch.randn(2, 3, 2, 8)
    both = []
    for run in (_find, COMPOSITIONS.__getitem__):
        caches = (keys.clone(), values.clone())
        if in_one:
            run("llama::sdpa_with_kv_cache")(query, new, new * 2, *caches, 5, 3, None, 0.0, True)
        else:
            run("llama::update_cache")(new, caches[0], 5)
            places = torch.tensor([[9, 1, 4], [0, 15, 2]])
            run("llama::update_cache_with_indices")(new, caches[1], 0, places)
        both.append(caches)
    assert torch.equal(both[0][0], both[1][0])
    assert torch.equal(both[0][1], both[1][1])
    assert not torch.equal(both[0][0], keys)


def test_every_composition_is_of_an_operator_that_the_oracle_runs_by_it() -> None:
    for name in COMPOSITIONS:
        assert len(get_operator(_find(name)).ways) == 1
