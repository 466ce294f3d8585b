"""The off-graph KV cache that ``UpdateAndAttendNode`` writes to and reads.

The planner in :mod:`backends.mlx.execution.cache_plan` decides which cells of the pools are written
and read (``MLXSequenceCache.h`` in ``backends/mlx/runtime`` of executorch). :func:`attend` is the
instruction (``exec_update_and_attend`` in ``MLXInterpreter.h``). The graph contains only the number
of a layer; the application decides everything else about the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import mlx.core as mx

from backends.mlx.execution.cache_plan import (
    CacheConfig,
    LayerConfig,
    LayerPolicy,
    Planner,
    PoolRange,
    StepPlan,
)
from backends.mlx.execution.kernels.base import check_memory
from harness import ProgramError

__all__ = [
    "AttendSpec",
    "CacheConfig",
    "KvPool",
    "LayerConfig",
    "LayerPolicy",
    "Planner",
    "PoolRange",
    "SequenceCache",
    "StepPlan",
    "attend",
    "window_mask",
]

_SEQUENCE = 2  # K and V are (1, heads, sequence, head dim)


class KvPool:
    """The K or V cells of one layer, ``(1, heads, cells, head dim)``; writing grows the pool."""

    def __init__(
        self, cells: int, max_cells: int, n_kv_heads: int, head_dim: int, dtype: mx.Dtype
    ) -> None:
        self.max_cells = max_cells
        first = min(cells, max_cells)
        check_memory("the cache", n_kv_heads * first * head_dim * dtype.size)
        self._cells = mx.zeros((1, n_kv_heads, first, head_dim), dtype)

    @property
    def cells(self) -> int:
        """Current number of cells."""
        return self._cells.shape[_SEQUENCE]

    def write(self, run: PoolRange, update: mx.array) -> None:
        """Store the tokens of ``update``, cast to the pool's dtype.

        Raises:
            ProgramError: the tokens do not fit the range, or the range does not fit the pool.
        """
        if run.start < 0 or run.stop > self.max_cells:
            raise ProgramError(f"cells {run.start}..{run.stop - 1} of {self.max_cells} are written")
        expected = (1, self._cells.shape[1], run.length, self._cells.shape[3])
        if update.shape != expected:
            raise ProgramError(f"K or V has shape {update.shape}, the cache expects {expected}")
        if run.stop > self.cells:
            self._grow(run.stop)
        stored = update.astype(self._cells.dtype)
        start = mx.array([run.start])
        self._cells = mx.slice_update(self._cells, stored, start, axes=[_SEQUENCE])

    def read(self, run: PoolRange) -> mx.array:
        """Return the tokens in a range of cells.

        Raises:
            ProgramError: the range is not in the pool.
        """
        if run.start < 0 or run.stop > self.cells:
            raise ProgramError(f"cells {run.start}..{run.stop - 1} of {self.cells} are read")
        return self._cells[:, :, run.start : run.stop]

    def _grow(self, needed: int) -> None:
        """Double the pool until it has ``needed`` cells, up to the limit."""
        cells = max(self.cells, 1)
        while cells < needed:
            cells *= 2
        cells = min(cells, self.max_cells)
        check_memory("the cache", self._cells.nbytes // max(self.cells, 1) * cells)
        more = cells - self.cells
        self._cells = mx.pad(self._cells, [(0, 0), (0, 0), (0, more), (0, 0)])


class AttendSpec(NamedTuple):
    """Operands of a step's attention: K and V in storage dtype; no mask, "causal" or a tensor."""

    keys: mx.array
    values: mx.array
    mask: Literal["causal"] | mx.array | None


class SequenceCache(Planner):
    """The cache of one sequence, with all layers: ``MLXSequenceCache``."""

    def __init__(self, config: CacheConfig) -> None:
        super().__init__(config)
        self._pools: dict[tuple[int, str], KvPool] = {}

    def update_and_fetch(self, layer: int, position: int, k: mx.array, v: mx.array) -> AttendSpec:
        """Store a step's K and V, ``(1, heads, tokens, head dim)``; return its attention operands.

        One token needs no mask: it attends all fetched cells, also in a ring. Several tokens need
        a mask tensor only where the window is narrower than the fetched cells.

        Raises:
            ProgramError: see :meth:`Planner.plan` and :meth:`KvPool.write`. V must have the head
                dimension of K, though the operator itself allows another.
        """
        if k.ndim != 4 or v.ndim != 4:
            raise ProgramError(f"K and V must have 4 dimensions, got {k.ndim} and {v.ndim}")
        count = k.shape[_SEQUENCE]
        plan = self.plan(layer, position, count)
        pools = [self._pool(layer, name, k) for name in ("k", "v")]
        for pool, update in zip(pools, (k, v), strict=True):
            _scatter(pool, plan.write, update)
        keys, values = (
            mx.concatenate([pool.read(run) for run in plan.read], axis=_SEQUENCE) for pool in pools
        )
        self.commit(plan)
        if count == 1:
            return AttendSpec(keys, values, None)
        window, span = self.config.layer(layer).policy.window, keys.shape[_SEQUENCE]
        if 0 < window < span:
            return AttendSpec(keys, values, window_mask(count, span, window))
        return AttendSpec(keys, values, "causal")

    def _pool(self, layer: int, name: str, k: mx.array) -> KvPool:
        if (layer, name) not in self._pools:
            config, described = self.config, self.config.layer(layer)
            ring = config.ring(layer)
            self._pools[layer, name] = KvPool(
                config.initial_capacity if ring is None else ring[0],
                config.capacity if ring is None else ring[0],
                k.shape[1] if described.n_kv_heads is None else described.n_kv_heads,
                k.shape[3] if described.head_dim is None else described.head_dim,
                config.kv_dtype or k.dtype,
            )
        return self._pools[layer, name]


def window_mask(queries: int, keys: int, window: int) -> mx.array:
    """Make a bool mask (1, 1, queries, keys): a query attends ``window`` keys up to its own.

    The last query's own key is the last key.
    """
    last = mx.arange(queries)[:, None] + (keys - queries)
    key = mx.arange(keys)[None, :]
    return ((key <= last) & (key > last - window))[None, None]


def attend(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    position: mx.array,
    layer_id: int | None,
    scale: float | None,
    out_dtype: mx.Dtype | None,
    cache: SequenceCache | None,
) -> mx.array:
    """Store K and V, and attend the layer's history with q (``exec_update_and_attend``).

    Args:
        q: (1, query heads, tokens, head dim); query heads are a multiple of the KV heads.
            Attention is computed in the dtype of q, whatever the storage dtype of the cells.
        k, v: (1, KV heads, tokens, head dim).
        position: int32 or int64; its first element is the position of the first token.
        layer_id: layer of the cache.
        scale: factor of the scores.
        out_dtype: dtype of the result; None for the dtype of q.
        cache: the cache that the application installed.

    Raises:
        ProgramError: the runtime would refuse.
    """
    if cache is None:
        raise ProgramError("update_and_attend: no cache is installed")
    if layer_id is None or scale is None:
        raise ProgramError("update_and_attend: layer_id or scale is not set")
    if position.dtype not in (mx.int32, mx.int64) or not position.size:
        raise ProgramError(
            f"update_and_attend: position must hold int32 or int64, got {position.size} "
            f"of {position.dtype}"
        )
    # The runtime stores a C++ int: an int64 loses its upper half.
    start = position.reshape(-1)[0].astype(mx.int32).item()
    assert isinstance(start, int)
    spec = cache.update_and_fetch(layer_id, start, k, v)
    keys, values = spec.keys.astype(q.dtype), spec.values.astype(q.dtype)
    try:
        out = mx.fast.scaled_dot_product_attention(q, keys, values, scale=scale, mask=spec.mask)
    except ValueError as error:
        raise ProgramError(f"update_and_attend: {error}") from error
    return out if out_dtype is None else out.astype(out_dtype)


def _scatter(pool: KvPool, runs: Sequence[PoolRange], update: mx.array) -> None:
    if len(runs) == 1:
        pool.write(runs[0], update)
        return
    begin = 0
    for run in runs:
        pool.write(run, update[:, :, begin : begin + run.length])
        begin += run.length
