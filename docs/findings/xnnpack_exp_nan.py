"""XNNPACK's exponential returns 0 for NaN."""

import math

import torch
from common import Observation, main, run

X = torch.tensor([math.nan, 1.0, math.inf, -math.inf])


class Exp(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x)


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    expected = Exp()(X)
    (observed,) = run(Exp(), (X,), XnnpackPartitioner())
    return Observation(
        expected.tolist(),
        observed.tolist(),
        wrong=bool((observed.isnan() != expected.isnan()).any()),
    )


if __name__ == "__main__":
    main(observe)
