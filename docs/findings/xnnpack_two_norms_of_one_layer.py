"""XNNPACK and Arm give a layer with two batch norms the weights of the first for both."""

import torch
from common import Observation, main, run

X = torch.ones(1, 1, 1, 1)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(1, 1, 1, bias=False)
        torch.nn.init.ones_(self.layer.weight)
        self.first, self.second = (torch.nn.BatchNorm2d(1, eps=0.0) for _ in range(2))
        torch.nn.init.constant_(self.second.weight, 10.0)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.first(self.layer(x)), self.second(self.layer(torch.relu(x)))


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    net = Net().eval()
    expected = [value.item() for value in net(X)]
    observed = [value.item() for value in run(net, (X,), XnnpackPartitioner())]
    return Observation(expected, observed, wrong=expected != observed)


if __name__ == "__main__":
    main(observe)
