"""XNNPACK folds a batch norm over the second dimension into the features of a linear layer."""

import torch
from common import Observation, main, run

X = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2, eps=0.0)
        with torch.no_grad():
            self.layer.weight.copy_(torch.eye(2))
            self.layer.bias.zero_()
            self.norm.weight.copy_(torch.tensor([1.0, 100.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.layer(x))


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    net = Net().eval()
    expected, observed = net(X), run(net, (X,), XnnpackPartitioner())[0]
    return Observation(
        expected.tolist(), observed.tolist(), wrong=not torch.allclose(expected, observed)
    )


if __name__ == "__main__":
    main(observe)
