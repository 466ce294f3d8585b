"""Indexing kernels refuse and broadcast as mlx's C++ does, where PyTorch differs."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import pytest

from backends.mlx.execution.kernels import BUILDERS
from backends.mlx.payload.graph import Node, Tid
from harness import ProgramError

X = mx.arange(12).astype(mx.float32).reshape(3, 4)


def execute(kind: str, *tensors: mx.array, **fields: Any) -> Any:
    slots: list[Any] = [*tensors, None]
    node = Node(kind=kind, out=Tid(len(tensors)), **fields)
    BUILDERS[kind](node)(slots, [])
    return slots[-1].tolist()


def gather(indices: mx.array, axes: list[int], sizes: list[int]) -> Any:
    return execute(
        "GatherNode", X, indices, x=Tid(0), indices=[Tid(1)], axes=axes, slice_sizes=sizes
    )


def test_gather_counts_negative_indices_from_the_end() -> None:
    assert gather(mx.array([0, -1]), [0], [1, 4]) == [[X[0].tolist()], [X[2].tolist()]]


@pytest.mark.parametrize(
    ("indices", "axes", "sizes", "problem"),
    [
        (mx.array([-1]), [0], [2, 4], "index 3 is out of range"),
        (mx.array([3]), [0], [1, 4], "index 3 is out of range"),
        (mx.array([0]), [-2], [1, 4], "are not distinct"),
        (mx.array([True]), [0], [1, 4], "expected integers"),
        (mx.array([0.0]), [0], [1, 4], "expected integers"),
    ],
)
def test_gather_refuses(indices: mx.array, axes: list[int], sizes: list[int], problem: str) -> None:
    with pytest.raises(ProgramError, match=problem):
        gather(indices, axes, sizes)


def scatter_add(indices: mx.array, updates: mx.array, axis: int = 0) -> Any:
    return execute(
        "ScatterAddNode", X, indices, updates, x=Tid(0), indices=Tid(1), updates=Tid(2), axis=axis
    )


def test_scatter_add_accumulates() -> None:
    changed = scatter_add(mx.array([[0, 0, 1, 2], [0, 2, 2, 2]]), mx.ones((2, 4)))
    assert changed == [[2, 2, 2, 3], [4, 5, 7, 7], [8, 10, 11, 13]]


def test_scatter_add_broadcasts_an_index_of_size_1_as_mlx_does() -> None:
    """PyTorch would change the first column only."""
    assert scatter_add(mx.array([[1]]), mx.ones((1, 1)))[1] == [5, 6, 7, 8]


def test_scatter_add_refuses_a_smaller_index() -> None:
    with pytest.raises(ValueError, match="cannot be broadcast"):
        scatter_add(mx.array([[0, 0]]), mx.ones((1, 2)))


def index_copy(indices: mx.array) -> Any:
    update = mx.zeros((indices.size, 4))
    return execute(
        "IndexCopyNode", X, update, indices, dst=Tid(0), update=Tid(1), indices=Tid(2), axis=0
    )


def test_index_copy_refuses_strided_indices() -> None:
    """The runtime would read the elements in between."""
    rows = mx.array([2, 1, 0, 1], dtype=mx.int64)
    assert index_copy(rows[:2])[1] == [0, 0, 0, 0]
    with pytest.raises(ProgramError, match="not consecutive in memory"):
        index_copy(rows[::2])


def test_slice_update_refuses_an_update_of_higher_rank() -> None:
    fields = {"dst": Tid(0), "update": Tid(1), "axis": 1, "start": 1, "stop": 3, "step": 1}
    assert execute("SliceUpdateNode", X, mx.zeros((3, 1)), **fields)[0] == [0, 0, 0, 3]
    with pytest.raises(ValueError, match="broadcast"):
        execute("SliceUpdateNode", X, mx.zeros((1, 3, 2)), **fields)
