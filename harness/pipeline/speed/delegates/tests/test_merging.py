"""Partitions can be merged where upstream says so."""

from __future__ import annotations

import random

import pytest
import torch
from executorch.exir.backend.canonical_partitioners import group_partitioner
from torch.fx import Graph, GraphModule
from torch.fx.passes.infra.partitioner import Partition
from torch.fx.passes.operator_support import OperatorSupport

from harness.pipeline.speed.delegates import partitions as merging


def _random_graph(seed: int) -> GraphModule:
    chance, graph = random.Random(seed), Graph()
    nodes = [graph.placeholder(f"given_{place}") for place in range(2)]
    for _ in range(24):
        # Few users are near, so that there are ways around.
        nodes.append(graph.call_function(torch.add, tuple(chance.sample(nodes[-8:], 2))))
    graph.output(tuple(nodes[-2:]))
    return GraphModule({}, graph)


@pytest.mark.parametrize("seed", range(5))
def test_the_answer_is_upstreams(seed: int) -> None:
    module = _random_graph(seed)
    partitioner = group_partitioner.GroupBasedPartitioner(module, OperatorSupport())
    calls = [node for node in module.graph.nodes if node.op == "call_function"]
    chance, said = random.Random(seed), []
    for _ in range(60):
        both = chance.sample(calls, chance.randrange(2, 7))
        partitions = {1: Partition(1, both[:-1]), 2: Partition(2, both[-1:])}
        ours = merging._can_merge_partitions(partitioner, 1, 2, partitions)
        assert ours is merging._upstream(partitioner, 1, 2, partitions)
        said.append(ours)
    assert {*said} == {True, False}
