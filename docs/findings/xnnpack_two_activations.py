"""XNNPACK drops the first of two activations behind a product."""

import torch
from common import Observation, execute, main
from executorch.exir import to_edge_transform_and_lower


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.nn.functional.relu6(x * y))


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    inputs = (torch.tensor([-2.0, 0.5, 3.0]), torch.full((3,), 4.0))
    edge = to_edge_transform_and_lower(
        torch.export.export(Net().eval(), inputs), partitioner=[XnnpackPartitioner()]
    )
    (observed,) = execute(bytes(edge.to_executorch().buffer), inputs)
    expected = Net()(*inputs)
    return Observation(expected.tolist(), observed.tolist(), not torch.equal(expected, observed))


if __name__ == "__main__":
    main(observe)
