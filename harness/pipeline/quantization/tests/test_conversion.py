"""Operations of a prepared graph are listed whatever their arguments are."""

from __future__ import annotations

import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from harness.pipeline.quantization.conversion import list_operations


def test_an_argument_that_is_a_symbolic_size() -> None:
    """Arm's decomposition of an embedding leaves such sizes, which cannot be hashed."""
    size = ShapeEnv().create_unbacked_symint()
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    sliced = graph.call_function(torch.ops.aten.slice.Tensor, (x, 0, 0, 1))
    sliced.args = (x, 0, 0, size)
    graph.output(sliced)
    operation, output = list_operations(torch.fx.GraphModule(torch.nn.Module(), graph), [])
    assert operation.leaves[-1] is size
    assert output.leaves[0].source == sliced.name
