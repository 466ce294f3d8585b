"""XNNPACK cannot lower a slice whose start lies before the first element."""

import subprocess

import torch
from common import Observation, lower, main

X = torch.arange(5.0)[None]


class Window(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, -7:-3]


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    try:
        lower(Window(), (X,), XnnpackPartitioner())
    except subprocess.CalledProcessError as error:
        return Observation("a program", f"flatc ends with {error.returncode}", wrong=True)
    return Observation("a program", "a program", wrong=False)


if __name__ == "__main__":
    main(observe)
