"""XNNPACK's partitioner makes a group of operators around another operator."""

import torch
from common import Observation, main, quantize_for_xnnpack
from executorch.exir import to_edge_transform_and_lower


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (torch.nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.a(x)
        return self.c(y - self.b(torch.nn.functional.silu(y)))


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    torch.manual_seed(0)
    program = quantize_for_xnnpack(Net(), (torch.randn(8, 16),))
    try:
        to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    except AssertionError as error:
        observed = f"AssertionError: {error}"
    else:
        observed = "lowers"
    return Observation("lowers", observed, wrong=observed != "lowers")


if __name__ == "__main__":
    main(observe)
