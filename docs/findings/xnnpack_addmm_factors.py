"""XNNPACK ignores alpha and beta of an addmm whose weight is stored as (in, out)."""

import torch
from common import Observation, execute, lower, main

X = torch.ones(1, 1)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1, 1))
        self.bias = torch.nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(self.bias, x, self.weight, beta=10.0, alpha=3.0)


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    program = lower(Net(), (X,), XnnpackPartitioner()).to_executorch().buffer
    expected, observed = Net()(X).item(), execute(program, (X,))[0].item()
    return Observation(expected, observed, wrong=expected != observed)


if __name__ == "__main__":
    main(observe)
