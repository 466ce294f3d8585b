"""Arm's DecomposeVarPass returns shape [1] for the variance of all elements."""

import torch
from common import Observation, main

X = torch.tensor([[1.0, 2.0], [4.0, 8.0]])


class Variance(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.var()


def observe() -> Observation:
    from executorch.backends.arm._passes.decompose_var_pass import DecomposeVarPass
    from executorch.exir import EdgeCompileConfig, to_edge

    config = EdgeCompileConfig(preserve_ops=[torch.ops.aten.var.correction])
    edge = to_edge(torch.export.export(Variance(), (X,)), compile_config=config)
    made = edge.transform([DecomposeVarPass()]).exported_program().module()(X)
    expected = list(Variance()(X).shape)
    return Observation(expected, list(made.shape), wrong=expected != list(made.shape))


if __name__ == "__main__":
    main(observe)
