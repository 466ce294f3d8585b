"""XNNPACK gives the second reader of a convolution's weight the bytes of the first one's layout."""

import torch
from common import Observation, main, run

X = torch.randn(1, 2, 4, 4)
SCALE = torch.ones(2, 1, 1, 1)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(16.0).reshape(2, 2, 2, 2))

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.nn.functional.conv2d(x, self.weight), self.weight * scale


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    net = Net()
    expected = net(X, SCALE)[1].flatten().tolist()
    observed = run(net, (X, SCALE), XnnpackPartitioner())[1].flatten().tolist()
    return Observation(expected, observed, wrong=expected != observed)


if __name__ == "__main__":
    main(observe)
