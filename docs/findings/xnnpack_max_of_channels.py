"""XNNPACK's partitioner takes a maximum along the channels, which cannot be lowered."""

import torch
from common import Observation, lower, main

X = torch.arange(60.0).reshape(1, 3, 4, 5)


class Peaks(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.max(x, 1, keepdim=True)[0]


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    try:
        lower(Peaks(), (X,), XnnpackPartitioner())
    except RuntimeError as error:
        return Observation("a program", str(error), wrong=True)
    return Observation("a program", "a program", wrong=False)


if __name__ == "__main__":
    main(observe)
