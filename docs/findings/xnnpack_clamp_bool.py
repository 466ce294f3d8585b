"""A bound of clamp that is a bool cannot be lowered for XNNPACK."""

import subprocess

import torch
from common import Observation, lower, main

X = torch.randn(2, 3)


class Clamp(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.clamp(x, max=True)


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    try:
        lower(Clamp(), (X,), XnnpackPartitioner())
    except subprocess.CalledProcessError as error:
        return Observation("a program", f"flatc ended with {error.returncode}", wrong=True)
    return Observation("a program", "a program", wrong=False)


if __name__ == "__main__":
    main(observe)
