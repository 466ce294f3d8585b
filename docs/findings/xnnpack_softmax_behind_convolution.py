"""XNNPACK computes the softmax behind a convolution over the channels instead of the last dim."""

import torch
from common import Observation, execute, main
from executorch.exir import to_edge_transform_and_lower


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.conv(x), -1)


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    torch.manual_seed(0)
    net, inputs = Net().eval(), (torch.randn(1, 4, 6, 6),)
    edge = to_edge_transform_and_lower(
        torch.export.export(net, inputs), partitioner=[XnnpackPartitioner()]
    )
    (observed,) = execute(bytes(edge.to_executorch().buffer), inputs)
    with torch.no_grad():
        rows = net.conv(*inputs)
        off = {dim: float((observed - rows.softmax(dim)).abs().max()) for dim in (-1, 1)}
    return Observation(
        "the softmax over the last dim",
        f"off by up to {off[-1]:.3f}; from the softmax over the channels by {off[1]:.1e}",
        wrong=off[-1] > 1e-3,
    )


if __name__ == "__main__":
    main(observe)
