"""XNNPACK gives the codes of a max pool the scale of the clamp behind it."""

import torch
import torch.nn.functional as F
from common import Observation, execute, main, quantize_for_xnnpack
from executorch.exir import to_edge_transform_and_lower


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = (torch.nn.Conv2d(1, 1, 1, bias=False) for _ in range(2))
        for layer in (self.first, self.last):
            torch.nn.init.ones_(layer.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(F.relu6(F.max_pool2d(self.first(x), (1, 2), (1, 2))))


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    inputs = (torch.tensor([-2.0, -2.0, -1.0, -1.0, 1.0, 1.0, 2.0, 2.0]).reshape(1, 1, 1, 8),)
    program = quantize_for_xnnpack(Net().eval(), inputs)
    edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    observed = execute(bytes(edge.to_executorch().buffer), inputs)[0]
    expected = program.module()(*inputs)
    return Observation(
        [round(value, 3) for value in expected.flatten().tolist()],
        [round(value, 3) for value in observed.flatten().tolist()],
        wrong=not torch.allclose(expected, observed, atol=0.05),
    )


if __name__ == "__main__":
    main(observe)
