"""Arm's FuseBatchNorm2dPass ignores the weight and the bias of a batch norm that are buffers."""

import torch
from common import Observation, main

X = torch.ones(1, 1, 1, 1)


class Frozen(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(1, 1, 1, bias=False)
        torch.nn.init.ones_(self.layer.weight)
        for name, value in {"mean": 0.0, "variance": 1.0, "weight": 3.0, "bias": 5.0}.items():
            self.register_buffer(name, torch.tensor([value]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.layer(x)
        return torch.nn.functional.batch_norm(
            hidden, self.mean, self.variance, self.weight, self.bias, eps=0.0
        )


def observe() -> Observation:
    from executorch.backends.arm._passes.fuse_batch_norm2d_pass import FuseBatchNorm2dPass
    from executorch.exir import to_edge

    program = to_edge(torch.export.export(Frozen().eval(), (X,))).exported_program()
    FuseBatchNorm2dPass(program).call(program.graph_module)
    expected, observed = Frozen()(X).item(), program.module()(X).item()
    return Observation(expected, observed, wrong=expected != observed)


if __name__ == "__main__":
    main(observe)
