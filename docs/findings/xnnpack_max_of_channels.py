"""XNNPACK's partitioner takes a maximum along the channels, which cannot be lowered."""

import torch
from common import Observation, lower, main, observe_error

X = torch.arange(60.0).reshape(1, 3, 4, 5)


class Peaks(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.max(x, 1, keepdim=True)[0]


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    return observe_error(
        "a program",
        "amax.default only supports",
        lambda: lower(Peaks(), (X,), XnnpackPartitioner()),
    )


if __name__ == "__main__":
    main(observe)
