"""The integers of the off-graph KV cache: its configuration, and where a step's tokens go.

The configuration is what an application decides (``CacheConfig`` in ``extension/llm/cache``'s
``cache.h``), the planner is ``sequence_cache.h`` beside it. Neither touches a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import mlx.core as mx
import numpy as np
from executorch.exir import schema

from harness import Program, ProgramError

# Longest sequence where neither program nor application bounds it.
UNBOUNDED = 2**17


@dataclass(frozen=True)
class LayerPolicy:
    """How much of its history a layer keeps.

    Attributes:
        window: 0 keeps all of it (flat); else each token attends that many, itself the last
            of them, and a ring of cells is used again and again.
    """

    window: int = 0

    def __post_init__(self) -> None:
        if self.window < 0:
            raise ProgramError(f"a cache layer has a window of {self.window} tokens")


@dataclass(frozen=True)
class LayerConfig:
    """One layer of the cache; None takes what the first step brings."""

    policy: LayerPolicy = LayerPolicy()
    n_kv_heads: int | None = None
    head_dim: int | None = None


@dataclass(frozen=True)
class CacheConfig:
    """What an application decides when it makes a cache (``CacheConfig`` in ``cache.h``).

    Attributes:
        n_layers: how many layers the model has.
        capacity: longest sequence in tokens, of ring layers too.
        layers: one for all layers, or one each.
        kv_dtype: cells are stored in it; None takes the dtype of what is written first.
        initial_capacity: cells that a flat layer begins with; it doubles when it is full.
        max_write: most tokens a step may bring to a ring layer; None allows as many as its window.

    Raises:
        ProgramError: where ``valid()`` of ``cache.h`` is false, or a step could never fit.
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
                f"a cache of {self.n_layers} layers is described by {len(self.layers)} "
                f"of them; describe one for all, or each"
            )
        if self.max_write is not None and self.max_write < 1:
            raise ProgramError(f"a cache lets a step write {self.max_write} tokens")

    def layer(self, index: int) -> LayerConfig:
        """The description of one layer."""
        return self.layers[0] if len(self.layers) == 1 else self.layers[index]

    def ring(self, index: int) -> tuple[int, int] | None:
        """(cells, most tokens of a step) of a ring layer, None for a flat one.

        More cells than the window, so that the last tokens of a step do not overwrite what
        the first one attends.
        """
        window = self.layer(index).policy.window
        if not window:
            return None
        write = window if self.max_write is None else self.max_write
        return window + write - 1, write

    @classmethod
    def of_program(cls, program: Program) -> CacheConfig | None:
        """The layout that a program publishes in constant methods, or None.

        The methods that ``_export_with_offgraph_cache`` of ``export_llm_hf.py`` writes, read as
        ``read_kv_layout`` of ``run_llm_hf.cpp`` does; that runner takes the capacity from its
        command line, here it is the published context length.

        Raises:
            ProgramError: the methods disagree about the number of layers.
        """
        found = _constants(program)
        per_layer = [found.get(f"get_{name}") for name in ("kv_heads", "head_dims", "windows")]
        count, chunk = found.get("get_n_caches"), found.get("get_prefill_chunk_size")
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
        capacity = found.get("get_max_ctx_len", (UNBOUNDED,))[0]
        return cls(count[0], capacity, tuple(layers), max_write=chunk[0])

    @classmethod
    def inferred(cls, layer_ids: Iterable[int]) -> CacheConfig:
        """Flat layers of what the first step brings, for a program that publishes no layout."""
        return cls(max(layer_ids, default=0) + 1)


class Run(NamedTuple):
    """Neighbouring cells of a pool."""

    start: int
    length: int

    @property
    def stop(self) -> int:
        """One past the last cell."""
        return self.start + self.length


class StepPlan(NamedTuple):
    """Where one step of one layer writes and reads, oldest token first.

    Attributes:
        write: cells of the step's tokens; two runs where a ring wraps.
        read: cells that the step's tokens attend, their own among them.
        base: position of the first token read.
    """

    write: tuple[Run, ...]
    read: tuple[Run, ...]
    base: int

    @property
    def end(self) -> int:
        """Length of the sequence after the step."""
        return self.base + sum(run.length for run in self.read)


class Planner:
    """The integers of the cache: ``SequenceCache`` in ``sequence_cache.h``.

    Attributes:
        length: tokens of the sequence so far, shared by all layers.
    """

    def __init__(self, config: CacheConfig) -> None:
        self.config = config
        self.length = 0

    def plan(self, layer: int, position: int, count: int) -> StepPlan:
        """Where ``count`` tokens from ``position`` on go; changes nothing.

        Any position within the capacity is accepted: one before the end overwrites, one behind
        it leaves cells that were never written, and what a ring has lost is not noticed.

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
            # Not refused by the planner of the runtime, but by Pool::write.
            raise ProgramError(f"cache layer {layer}: position {position} is out of bounds")
        ring = config.ring(layer)
        if ring is None:
            return StepPlan((Run(position, count),), (Run(0, end),), 0)
        cells, most = ring
        if count > most:
            raise ProgramError(
                f"cache layer {layer}: a step of {count} tokens, at most {most} fit its ring"
            )
        base = max(0, position - config.layer(layer).policy.window + 1)
        return StepPlan(_wrap(position, count, cells), _wrap(base, end - base, cells), base)

    def commit(self, plan: StepPlan) -> None:
        """Count the step's tokens; overwriting does not shorten the sequence."""
        self.length = max(self.length, plan.end)

    def can_extend(self, count: int = 1) -> bool:
        """Whether so many tokens still fit."""
        return self.length + count <= self.config.capacity

    def rewind(self, length: int) -> bool:
        """Shorten the sequence; False when that would lengthen it or a ring has lost the token.

        As ``retained_from`` in ``sequence_cache.h`` has it, a ring may be shortened by its
        window. What the next token attends reaches further back and is overwritten already when
        more than ``max_write`` tokens are dropped.
        """
        windows = [layer.policy.window for layer in self.config.layers]
        lost = max(max(0, self.length - window) if window else 0 for window in windows)
        if not lost <= length <= self.length:
            return False
        self.length = length
        return True

    def clear(self) -> None:
        """Begin a new sequence."""
        self.length = 0


def _wrap(start: int, length: int, cells: int) -> tuple[Run, ...]:
    """The cells of consecutive tokens in a ring (``RingPolicy::split_runs``)."""
    first = start % cells
    head = min(length, cells - first)
    return (Run(first, head), Run(0, length - head)) if head < length else (Run(first, head),)


def _constants(program: Program) -> Mapping[str, tuple[int, ...]]:
    """What the methods return that return a constant int or int32 tensor, as tuples."""
    found: dict[str, tuple[int, ...]] = {}
    for plan in program.file.program.execution_plan:
        if len(plan.outputs) != 1 or plan.inputs or plan.delegates:
            continue
        value = plan.values[plan.outputs[0]].val
        if isinstance(value, schema.Int):
            found[plan.name] = (value.int_val,)
        elif isinstance(value, schema.Tensor) and value.scalar_type == schema.ScalarType.INT:
            data = program.file.program.constant_buffer[value.data_buffer_idx].storage
            # The bytes are padded, so the sizes say how many count.
            count = math.prod(value.sizes)
            found[plan.name] = tuple(np.frombuffer(data, np.int32, count).tolist())
    return found
