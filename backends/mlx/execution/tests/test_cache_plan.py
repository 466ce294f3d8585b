"""The cache's integers: its configuration and where a step's tokens go."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from executorch.exir import to_edge

from backends.mlx.execution.cache_plan import (
    CacheConfig,
    LayerConfig,
    LayerPolicy,
    Planner,
    PoolRange,
    StepPlan,
)
from harness import ProgramError
from harness.backend_api import Program
from harness.pipeline import stages

FLAT = LayerConfig()


def ring(window: int) -> LayerConfig:
    return LayerConfig(LayerPolicy(window))


def test_a_flat_layer_appends_and_reads_all() -> None:
    planner = Planner(CacheConfig(1, capacity=8))
    assert planner.plan(0, 0, 6) == StepPlan((PoolRange(0, 6),), (PoolRange(0, 6),), 0)
    assert planner.plan(0, 6, 2) == StepPlan((PoolRange(6, 2),), (PoolRange(0, 8),), 0)


def test_a_ring_buffer_splits_writes_that_wrap_and_reads_the_union_of_the_windows() -> None:
    planner = Planner(CacheConfig(1, layers=(ring(3),), max_write=4))  # 6 cells
    assert planner.plan(0, 0, 4) == StepPlan((PoolRange(0, 4),), (PoolRange(0, 4),), 0)
    assert planner.plan(0, 4, 3) == StepPlan(
        (PoolRange(4, 2), PoolRange(0, 1)), (PoolRange(2, 4), PoolRange(0, 1)), 2
    )
    assert planner.plan(0, 12, 1) == StepPlan(
        (PoolRange(0, 1),), (PoolRange(4, 2), PoolRange(0, 1)), 10
    )


def test_planning_changes_nothing_and_committing_twice_counts_once() -> None:
    planner = Planner(CacheConfig(2, capacity=8, layers=(FLAT, ring(4))))
    plans = [planner.plan(layer, 0, 3) for layer in (0, 1)]
    assert planner.length == 0
    for plan in plans:
        planner.commit(plan)
    assert planner.length == 3
    assert planner.can_extend(5)
    assert not planner.can_extend(6)


def test_overwriting_does_not_shorten_the_sequence() -> None:
    planner = Planner(CacheConfig(1))
    planner.commit(planner.plan(0, 0, 6))
    planner.commit(planner.plan(0, 2, 1))
    assert planner.length == 6


def test_rewinding_is_limited_to_positions_in_the_ring_buffer() -> None:
    flat, both = Planner(CacheConfig(1)), Planner(CacheConfig(2, layers=(FLAT, ring(4))))
    for planner in (flat, both):
        planner.commit(planner.plan(0, 0, 10))
        assert not planner.rewind(11)
    assert flat.rewind(0)
    assert not both.rewind(5)
    assert both.rewind(6)
    assert both.length == 6
    both.clear()
    assert both.length == 0


@pytest.mark.parametrize(
    "options",
    [
        {"n_layers": 0},
        {"n_layers": 1, "capacity": 0},
        {"n_layers": 1, "initial_capacity": -1},
        {"n_layers": 1, "max_write": 0},
        {"n_layers": 3, "layers": (FLAT, FLAT)},
    ],
)
def test_a_cache_that_cannot_be_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ProgramError):
        CacheConfig(**options)


def test_a_negative_window_is_refused() -> None:
    with pytest.raises(ProgramError):
        LayerPolicy(-1)


# Constants that a program publishes.


def program(**methods: Any) -> Program:
    exported = stages.export(torch.nn.ReLU(), (torch.randn(2),))
    edge = to_edge(exported, constant_methods=methods)
    return Program(stages.serialize(stages.to_executorch(edge)))


def listed(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


PUBLISHED = {
    "get_n_caches": 2,
    "get_kv_heads": listed(2, 1),
    "get_head_dims": listed(8, 16),
    "get_windows": listed(0, 6),
    "get_prefill_chunk_size": 5,
    "get_max_ctx_len": 99,
}


def test_the_layout_is_read_from_the_methods_of_the_program() -> None:
    layers = (LayerConfig(LayerPolicy(0), 2, 8), LayerConfig(LayerPolicy(6), 1, 16))
    expected = CacheConfig(2, 99, layers, max_write=5)
    assert CacheConfig.from_program(program(**PUBLISHED)) == expected


def test_a_program_may_publish_nothing_but_not_contradict_itself() -> None:
    assert CacheConfig.from_program(program()) is None
    with pytest.raises(ProgramError, match=r"publishes 2 caches, .* of 2, 2, 1"):
        CacheConfig.from_program(program(**{**PUBLISHED, "get_windows": listed(0)}))


def test_without_a_layout_the_layers_are_flat() -> None:
    config = CacheConfig.from_layer_ids([0, 2, 0])
    assert config.n_layers == 3
    assert config.ring(2) is None
    assert config.capacity > 100_000
