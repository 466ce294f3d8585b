"""XNNPACK adds a bias that is no vector over the features as if it were one."""

import torch
from common import Observation, execute, lower, main

X = torch.zeros(2, 3)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2, 3))
        self.bias = torch.nn.Parameter(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, self.weight, self.bias)


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    program = lower(Net(), (X,), XnnpackPartitioner()).to_executorch().buffer
    expected, observed = Net()(X).tolist(), execute(program, (X,))[0].tolist()
    return Observation(expected, observed, wrong=expected != observed)


if __name__ == "__main__":
    main(observe)
