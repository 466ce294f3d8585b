"""Configuration and planner of the off-graph KV cache; neither uses tensors.

An application chooses the configuration (``CacheConfig`` in ``cache.h`` of
``extension/llm/cache``). The planner decides which cells a step writes and reads
(``sequence_cache.h`` in the same folder).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import mlx.core as mx
import numpy as np
from executorch.exir import schema

from harness import ProgramError
from harness.backend_api import Program

# Longest sequence if neither the program nor the application limits it.
UNBOUNDED = 2**17


@dataclass(frozen=True)
class LayerPolicy:
    """The number of tokens that a layer keeps.

    Attributes:
        window: 0 keeps all tokens (flat). Otherwise each token attends this many, itself included,
            and the layer reuses a ring of cells.
    """

    window: int = 0

    def __post_init__(self) -> None:
        if self.window < 0:
            raise ProgramError(f"a cache layer has a window of {self.window} tokens")


@dataclass(frozen=True)
class LayerConfig:
    """One layer of the cache; the first step determines a value of None."""

    policy: LayerPolicy = LayerPolicy()
    n_kv_heads: int | None = None
    head_dim: int | None = None


@dataclass(frozen=True)
class CacheConfig:
    """The configuration that an application chooses for a cache (``CacheConfig`` in ``cache.h``).

    Attributes:
        n_layers: number of layers of the model.
        capacity: longest sequence in tokens, also for ring layers.
        layers: one entry for all layers, or one for each.
        kv_dtype: dtype of the cells; None for the dtype of the first write.
        initial_capacity: initial cells of a flat layer; a full layer doubles.
        max_write: most tokens that a step may write to a ring layer; None for the window's size.

    Raises:
        ProgramError: ``valid()`` of ``cache.h`` is false, or no step could fit.
    """

    n_layers: int
    capacity: int = UNBOUNDED
    layers: tuple[LayerConfig, ...] = (LayerConfig(),)
    kv_dtype: mx.Dtype | None = None
    initial_capacity: int = 512
    max_write: int | None = None

    def __post_init__(self) -> None:
        if self.capacity <= 0 or self.n_layers <= 0 or self.initial_capacity < 0:
            raise ProgramError(
                f"a cache of {self.n_layers} layers, capacity {self.capacity} and initial "
                f"capacity {self.initial_capacity} cannot be made"
            )
        if len(self.layers) not in (1, self.n_layers):
            raise ProgramError(
                f"a cache of {self.n_layers} layers has {len(self.layers)} layer configurations; "
                f"give one for all, or one for each"
            )
        if self.max_write is not None and self.max_write < 1:
            raise ProgramError(
                f"max_write of a cache is {self.max_write} tokens, expected 1 or more"
            )

    def layer(self, index: int) -> LayerConfig:
        """Return the configuration of one layer."""
        return self.layers[0] if len(self.layers) == 1 else self.layers[index]

    def ring(self, index: int) -> tuple[int, int] | None:
        """Return (cells, most tokens of a step) of a ring layer, None for a flat one.

        A ring has more cells than the window, so that the last tokens of a step do not overwrite
        tokens that the first one attends.
        """
        window = self.layer(index).policy.window
        if not window:
            return None
        write = window if self.max_write is None else self.max_write
        return window + write - 1, write

    @classmethod
    def from_program(cls, program: Program) -> CacheConfig | None:
        """Read the layout that a program declares in constant methods; None without them.

        ``_export_with_offgraph_cache`` of ``export_llm_hf.py`` writes these methods, and
        ``read_kv_layout`` of ``run_llm_hf.cpp`` reads them. That runner takes the capacity from
        its command line; here it is the declared context length.

        Raises:
            ProgramError: the methods disagree about the number of layers.
        """
        values = _read_constant_methods(program)
        per_layer = [values.get(f"get_{name}") for name in ("kv_heads", "head_dims", "windows")]
        count, chunk = values.get("get_n_caches"), values.get("get_prefill_chunk_size")
        if count is None or chunk is None or None in per_layer:
            return None
        columns = [column or () for column in per_layer]
        if any(len(column) != count[0] for column in columns):
            raise ProgramError(
                f"the program publishes {count[0]} caches, and heads, head dims and windows "
                f"of {', '.join(str(len(column)) for column in columns)}"
            )
        layers = (
            LayerConfig(LayerPolicy(window), heads, dim)
            for heads, dim, window in zip(*columns, strict=True)
        )
        capacity = values.get("get_max_ctx_len", (UNBOUNDED,))[0]
        return cls(count[0], capacity, tuple(layers), max_write=chunk[0])

    @classmethod
    def from_layer_ids(cls, layer_ids: Iterable[int]) -> CacheConfig:
        """Configure flat layers for a program that declares no layout."""
        return cls(max(layer_ids, default=0) + 1)


class PoolRange(NamedTuple):
    """A range of neighbouring cells of a pool."""

    start: int
    length: int

    @property
    def stop(self) -> int:
        """One past the last cell."""
        return self.start + self.length


class StepPlan(NamedTuple):
    """The cells that a step of one layer writes and reads, oldest token first.

    Attributes:
        write: cells of the step's tokens; two ranges where a ring wraps.
        read: cells that the step's tokens attend, including their own.
        base: position of the first token read.
    """

    write: tuple[PoolRange, ...]
    read: tuple[PoolRange, ...]
    base: int

    @property
    def end(self) -> int:
        """Length of the sequence in tokens after the step."""
        return self.base + sum(run.length for run in self.read)


class Planner:
    """Decides which cells a step uses: ``SequenceCache`` in ``sequence_cache.h``.

    Attributes:
        length: current length of the sequence in tokens, shared by all layers.
    """

    def __init__(self, config: CacheConfig) -> None:
        self.config = config
        self.length = 0

    def plan(self, layer: int, position: int, count: int) -> StepPlan:
        """Plan a step of ``count`` tokens from ``position`` on; does not change the planner.

        Any position within the capacity is accepted. A position before the end overwrites tokens,
        and one after it leaves cells unwritten. Tokens that a ring has lost are not detected.

        Raises:
            ProgramError: no such layer, or the step does not fit.
        """
        config = self.config
        if not 0 <= layer < config.n_layers:
            raise ProgramError(f"cache layer {layer} of {config.n_layers} does not exist")
        end = position + count
        if end > config.capacity:
            raise ProgramError(
                f"cache layer {layer}: tokens {position}..{end - 1} exceed the capacity "
                f"of {config.capacity}"
            )
        if position < 0:
            # In the runtime, Pool::write refuses this, not the planner.
            raise ProgramError(f"cache layer {layer}: position {position} is out of bounds")
        ring = config.ring(layer)
        if ring is None:
            return StepPlan((PoolRange(position, count),), (PoolRange(0, end),), 0)
        cells, most = ring
        if count > most:
            raise ProgramError(
                f"cache layer {layer}: a step of {count} tokens, at most {most} fit its ring"
            )
        base = max(0, position - config.layer(layer).policy.window + 1)
        return StepPlan(_wrap(position, count, cells), _wrap(base, end - base, cells), base)

    def commit(self, plan: StepPlan) -> None:
        """Add the step's tokens to the length; overwriting does not shorten the sequence."""
        self.length = max(self.length, plan.end)

    def can_extend(self, count: int = 1) -> bool:
        """Return whether ``count`` more tokens fit."""
        return self.length + count <= self.config.capacity

    def rewind(self, length: int) -> bool:
        """Shorten the sequence; return False if it is shorter already or a ring lost the token.

        Like ``retained_from`` in ``sequence_cache.h``, this allows a ring to be shortened by its
        window. The next token then attends older cells, which are already overwritten if more than
        ``max_write`` tokens are dropped.
        """
        windows = [layer.policy.window for layer in self.config.layers]
        lost = max(max(0, self.length - window) if window else 0 for window in windows)
        if not lost <= length <= self.length:
            return False
        self.length = length
        return True

    def clear(self) -> None:
        """Start a new sequence."""
        self.length = 0


def _wrap(start: int, length: int, cells: int) -> tuple[PoolRange, ...]:
    """Return the cells of consecutive tokens in a ring (``RingPolicy::split_runs``)."""
    first = start % cells
    head = min(length, cells - first)
    return (
        (PoolRange(first, head), PoolRange(0, length - head))
        if head < length
        else (PoolRange(first, head),)
    )


def _read_constant_methods(program: Program) -> Mapping[str, tuple[int, ...]]:
    """Return the values of methods that return a constant int or int32 tensor, as tuples."""
    found: dict[str, tuple[int, ...]] = {}
    for plan in program.file.program.execution_plan:
        if len(plan.outputs) != 1 or plan.inputs or plan.delegates:
            continue
        value = plan.values[plan.outputs[0]].val
        if isinstance(value, schema.Int):
            found[plan.name] = (value.int_val,)
        elif isinstance(value, schema.Tensor) and value.scalar_type == schema.ScalarType.INT:
            data = program.file.program.constant_buffer[value.data_buffer_idx].storage
            # The bytes are padded, so take the element count from the sizes.
            count = math.prod(value.sizes)
            found[plan.name] = tuple(np.frombuffer(data, np.int32, count).tolist())
    return found
