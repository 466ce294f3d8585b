"""The off-graph cache against attention over the whole history, written down plainly."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from backends.mlx.execution.cache import (
    CacheConfig,
    KvPool,
    LayerConfig,
    LayerPolicy,
    PoolRange,
    SequenceCache,
    attend,
    window_mask,
)
from harness import ProgramError

DIM = 4
SCALE = 0.5


def ring(window: int) -> LayerConfig:
    return LayerConfig(LayerPolicy(window))


FLAT = LayerConfig()


def make(*layers: LayerConfig, **options: Any) -> SequenceCache:
    return SequenceCache(CacheConfig(len(layers), layers=layers, **options))


def drawn(seed: int, heads: int, tokens: int, dim: int = DIM, dtype: Any = mx.float32) -> mx.array:
    values = np.random.default_rng(seed).standard_normal((1, heads, tokens, dim))
    return mx.array(values.astype(np.float32)).astype(dtype)


def at(position: int, tokens: int, dtype: Any = mx.int32) -> mx.array:
    return mx.arange(position, position + tokens, dtype=dtype)[:, None]


def step(
    cache: SequenceCache, position: int, tokens: int, seed: int = 0, layer: int = 0
) -> tuple[mx.array, mx.array, mx.array, mx.array]:
    """One step with two query heads on one KV head: (q, k, v, result)."""
    q, k, v = drawn(seed, 2, tokens), drawn(seed + 1, 1, tokens), drawn(seed + 2, 1, tokens)
    return q, k, v, attend(q, k, v, at(position, tokens), layer, SCALE, None, cache)


def plain(
    q: Any, keys: Sequence[Any], values: Sequence[Any], position: int, window: int = 0
) -> np.ndarray:
    """Attention of each query head and token in float64, over (KV heads, dim) by position."""
    q = np.array(q, np.float64)[0]
    heads, tokens, _ = q.shape
    out = np.zeros(q.shape)
    for head in range(heads):
        kv = head * keys[0].shape[0] // heads
        for token in range(tokens):
            last = position + token
            seen = range(max(0, last - window + 1) if window else 0, last + 1)
            scores = np.array([SCALE * (q[head, token] @ keys[p][kv]) for p in seen])
            weights = np.exp(scores - scores.max())
            weights /= weights.sum()
            out[head, token] = weights @ np.array([values[p][kv] for p in seen])
    return out[None]


def cells(tensor: mx.array) -> list[np.ndarray]:
    """(KV heads, dim) of each token."""
    return list(np.array(tensor, np.float64)[0].swapaxes(0, 1))


# The pool


def test_a_pool_doubles_up_to_its_limit_and_keeps_its_cells() -> None:
    pool = KvPool(2, 10, 1, DIM, mx.float32)
    first = drawn(0, 1, 2)
    pool.write(PoolRange(0, 2), first)
    assert pool.cells == 2
    pool.write(PoolRange(2, 3), drawn(1, 1, 3))
    assert pool.cells == 8
    pool.write(PoolRange(5, 4), drawn(2, 1, 4))
    assert pool.cells == 10
    assert mx.array_equal(pool.read(PoolRange(0, 2)), first)
    assert mx.array_equal(pool.read(PoolRange(5, 4)), drawn(2, 1, 4))
    assert not mx.any(pool.read(PoolRange(9, 1)))


def test_a_pool_may_begin_empty_and_never_begins_beyond_its_limit() -> None:
    empty = KvPool(0, 10, 1, DIM, mx.float32)
    empty.write(PoolRange(0, 3), drawn(0, 1, 3))
    assert empty.cells == 4
    assert KvPool(512, 3, 1, DIM, mx.float32).cells == 3


def test_values_already_read_do_not_change() -> None:
    cache = make(FLAT)
    k = drawn(1, 1, 2)
    before = cache.update_and_fetch(0, 0, k, k)
    cache.update_and_fetch(0, 0, -k, -k)
    assert mx.array_equal(before.keys, k)


@pytest.mark.parametrize("run", [PoolRange(-1, 2), PoolRange(3, 2)])
def test_a_pool_refuses_cells_it_does_not_have(run: PoolRange) -> None:
    pool = KvPool(4, 4, 1, DIM, mx.float32)
    with pytest.raises(ProgramError, match="of 4 are written"):
        pool.write(run, drawn(0, 1, 2))
    with pytest.raises(ProgramError, match="of 4 are read"):
        pool.read(run)


# What is attended


def test_a_rewound_ring_buffer_lacks_positions_that_the_next_token_attends() -> None:
    """Upstream accepts it; the emulation must behave as the device would."""
    cache = make(ring(4), max_write=1)
    fed = [step(cache, position, 1, seed=10 * position) for position in range(10)]
    assert cache.rewind(6)
    spec = cache.update_and_fetch(0, 6, fed[6][1], fed[6][2])
    expected = mx.concatenate([fed[p][1] for p in (7, 8, 9, 6)], axis=2)
    assert mx.array_equal(spec.keys, expected)


@pytest.mark.parametrize(
    ("layer", "position", "tokens", "message"),
    [
        (0, 30, 3, "exceed the capacity of 32"),
        (0, 32, 1, "exceed the capacity of 32"),
        (1, 31, 2, "exceed the capacity of 32"),
        (1, 0, 4, "a step of 4 tokens, at most 3"),
        (2, 0, 1, "layer 2 of 2"),
        (-1, 0, 1, "layer -1 of 2"),
        (0, -1, 2, "position -1 is out of bounds"),
        (1, -1, 2, "position -1 is out of bounds"),
    ],
)
def test_a_step_that_does_not_fit_is_refused(
    layer: int, position: int, tokens: int, message: str
) -> None:
    cache = make(FLAT, ring(4), capacity=32, max_write=3)
    with pytest.raises(ProgramError, match=message):
        step(cache, position, tokens, layer=layer)
    assert cache.length == 0


def test_the_window_is_a_band_that_ends_at_each_query() -> None:
    band = [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    assert mx.array_equal(window_mask(3, 4, 2), mx.array([[band]]).astype(mx.bool_))
    causal = [[1, 1, 0], [1, 1, 1]]
    assert mx.array_equal(window_mask(2, 3, 3), mx.array([[causal]]).astype(mx.bool_))


def test_a_mask_is_created_only_where_a_window_is_shorter() -> None:
    cache = make(FLAT, ring(4), ring(16))
    for layer, kinds in ((0, "causal none"), (1, "causal none"), (2, "causal none")):
        k = drawn(0, 1, 4)
        first = cache.update_and_fetch(layer, 0, k, k).mask
        second = cache.update_and_fetch(layer, 4, k[:, :, :1], k[:, :, :1]).mask
        assert f"{first} {'none' if second is None else second}" == kinds
    k = drawn(0, 1, 2)
    cut = cache.update_and_fetch(1, 5, k, k)
    assert cut.keys.shape[2] == 5
    assert isinstance(cut.mask, mx.array)
    assert cache.update_and_fetch(2, 5, k, k).mask == "causal"


def test_a_wrapped_step_is_returned_in_order() -> None:
    cache = make(ring(4), max_write=2)
    k = drawn(0, 2, 7)
    for position in range(5):
        token = k[:, :, position : position + 1]
        cache.update_and_fetch(0, position, token, token)
    spec = cache.update_and_fetch(0, 5, k[:, :, 5:], k[:, :, 5:])
    assert mx.array_equal(spec.keys, k[:, :, 2:])
    assert mx.array_equal(spec.values, k[:, :, 2:])


def test_chunks_and_single_tokens_equal_one_prefill() -> None:
    for layer in (FLAT, ring(3)):
        whole, parts = make(layer, max_write=9), make(layer, max_write=9)
        q, k, v = drawn(0, 2, 9), drawn(1, 1, 9), drawn(2, 1, 9)
        expected = attend(q, k, v, at(0, 9), 0, SCALE, None, whole)
        for start, stop in ((0, 4), (4, 7), (7, 8), (8, 9)):
            piece = (tensor[:, :, start:stop] for tensor in (q, k, v))
            got = attend(*piece, at(start, stop - start), 0, SCALE, None, parts)
            assert mx.allclose(got, expected[:, :, start:stop], atol=1e-6)


def test_layers_do_not_share_cells() -> None:
    cache = make(FLAT, FLAT)
    fed = [step(cache, 0, 3, seed=10 * layer, layer=layer) for layer in (0, 1)]
    for layer, (_, k, v, _) in enumerate(fed):
        q, k1, v1, out = step(cache, 3, 1, seed=50, layer=layer)
        keys, values = cells(k) + cells(k1), cells(v) + cells(v1)
        np.testing.assert_allclose(np.array(out), plain(q, keys, values, 3), atol=1e-6)


@st.composite
def sequences(draw: st.DrawFn) -> tuple[int, int | None, int, int, int, list[tuple[int, int]]]:
    """Window, max_write, KV heads, queries a KV head, initial capacity, and (position, tokens).

    Positions go back, but not to where a ring has lost what is attended.
    """
    window = draw(st.integers(0, 6))
    max_write = draw(st.none() | st.integers(1, 5))
    most = (max_write or window) if window else 6
    steps = []
    length = highest = 0
    for _ in range(draw(st.integers(1, 8))):
        low = max(0, highest - most) if window else 0
        back = draw(st.booleans()) and low < length
        position = draw(st.integers(low, length)) if back else length
        tokens = draw(st.integers(1, most))
        steps.append((position, tokens))
        length = position + tokens
        highest = max(highest, length)
    kv_heads, groups = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    return window, max_write, kv_heads, groups, draw(st.integers(0, 4)), steps


@settings(max_examples=150, deadline=None, derandomize=True)
@given(sequences())
def test_any_sequence_of_steps_equals_plain_attention(
    drawn_sequence: tuple[int, int | None, int, int, int, list[tuple[int, int]]],
) -> None:
    window, max_write, kv_heads, groups, initial, steps = drawn_sequence
    cache = make(ring(window), max_write=max_write, initial_capacity=initial, capacity=64)
    keys: list[np.ndarray] = []
    values: list[np.ndarray] = []
    for seed, (position, tokens) in enumerate(steps):
        q = drawn(3 * seed, kv_heads * groups, tokens)
        k, v = drawn(3 * seed + 1, kv_heads, tokens), drawn(3 * seed + 2, kv_heads, tokens)
        out = attend(q, k, v, at(position, tokens), 0, SCALE, None, cache)
        keys[position:], values[position:] = cells(k), cells(v)
        expected = plain(q, keys, values, position, window)
        np.testing.assert_allclose(np.array(out), expected, atol=2e-6)


# Dtypes


def test_cells_are_stored_in_their_dtype_and_attended_in_that_of_q() -> None:
    cache = make(FLAT, kv_dtype=mx.float16)
    q, k, v, out = step(cache, 0, 5)
    assert out.dtype == mx.float32
    rounded = [cells(tensor.astype(mx.float16)) for tensor in (k, v)]
    np.testing.assert_allclose(np.array(out), plain(q, *rounded, 0), atol=1e-6)
    assert cache.update_and_fetch(0, 5, k, v).keys.dtype == mx.float16


def test_the_first_step_fixes_open_sizes() -> None:
    cache = make(FLAT)
    k = drawn(0, 3, 2, dim=8, dtype=mx.bfloat16)
    spec = cache.update_and_fetch(0, 0, k, k.astype(mx.float32))
    assert spec.keys.dtype == spec.values.dtype == mx.bfloat16
    with pytest.raises(ProgramError, match="the cache expects"):
        step(cache, 2, 1)


@pytest.mark.parametrize(
    ("given_dtype", "expected"), [(None, mx.float16), (mx.float32, mx.float32)]
)
def test_the_result_has_the_requested_dtype(given_dtype: Any, expected: Any) -> None:
    q, k = drawn(0, 2, 3, dtype=mx.float16), drawn(1, 1, 3, dtype=mx.float16)
    out = attend(q, k, k, at(0, 3), 0, SCALE, given_dtype, make(FLAT, kv_dtype=mx.float32))
    assert out.dtype == expected


# The instruction


def test_only_the_first_position_counts_and_an_int64_is_cut_to_an_int32() -> None:
    cache, twin = make(FLAT), make(FLAT)
    step(cache, 0, 3)
    step(twin, 0, 3)
    q, k, v, expected = step(twin, 3, 2, seed=7)
    odd = mx.array([[2**32 + 3], [77]], dtype=mx.int64)
    assert mx.array_equal(attend(q, k, v, odd, 0, SCALE, None, cache), expected)


K1 = drawn(1, 1, 2)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"cache": None}, "no cache is installed"),
        ({"layer_id": None}, "layer_id or scale is not set"),
        ({"scale": None}, "layer_id or scale is not set"),
        ({"position": at(0, 2, mx.float32)}, "position must hold int32 or int64"),
        ({"position": mx.zeros((0, 1), mx.int32)}, "position must hold int32 or int64"),
        ({"v": drawn(1, 1, 2, dim=8)}, r"\(1, 1, 2, 8\), the cache expects \(1, 1, 2, 4\)"),
        ({"v": drawn(1, 1, 3)}, "the cache expects"),
        ({"k": drawn(1, 3, 2)}, "the cache expects"),
        ({"k": mx.concatenate([K1, K1]), "v": mx.concatenate([K1, K1])}, "the cache expects"),
        ({"k": K1[0]}, "must have 4 dimensions"),
        ({"q": drawn(1, 2, 2, dim=8)}, "update_and_attend: "),
    ],
)
def test_cache_operations_that_the_runtime_refuses_are_refused(
    changed: dict[str, Any], message: str
) -> None:
    arguments: dict[str, Any] = {
        "q": drawn(0, 2, 2),
        "k": K1,
        "v": K1,
        "position": at(0, 2),
        "layer_id": 0,
        "scale": SCALE,
        "out_dtype": None,
        "cache": make(LayerConfig(n_kv_heads=1, head_dim=DIM)),
    }
    with pytest.raises(ProgramError, match=message):
        attend(**{**arguments, **changed})


# Results of upstream's eager operator.


@pytest.fixture
def upstream() -> Iterator[Any]:
    """Installs one of upstream's reference caches and calls the operator."""
    from executorch.extension.llm.cache import reference_cache as reference
    from executorch.extension.llm.cache.update_and_attend import REGISTRY, update_and_attend

    def install(window: int) -> Any:
        policy = reference.LayerPolicy.ring(window) if window else reference.LayerPolicy.flat()
        with warnings.catch_warnings(action="ignore"):  # it is experimental
            config = reference.CacheConfig(1, 2, DIM, 64, layers=[policy])
            cache = reference.ContiguousReferenceCache(config)
        REGISTRY.install("test", cache)
        return update_and_attend

    before = REGISTRY._active
    REGISTRY._active = "test"
    yield install
    REGISTRY._active = before
    REGISTRY.uninstall("test")


@pytest.mark.parametrize("window", [0, 1, 3, 8])
def test_it_equals_upstreams_eager_operator(window: int, upstream: Any) -> None:
    operator, cache = upstream(window), make(ring(window), max_write=5)
    position = 0
    for tokens in (5, 1, 3, 1, 1, 4):
        q, k, v = (drawn(position + i, heads, tokens) for i, heads in enumerate((4, 2, 2)))
        place = at(position, tokens)
        got = attend(q, k, v, place, 0, SCALE, None, cache)
        arguments = (torch.from_numpy(np.array(item)) for item in (q, k, v, place))
        expected = operator(*arguments, 0, SCALE, torch.float32)
        np.testing.assert_allclose(np.array(got), expected.numpy(), atol=2e-6)
        position += tokens
