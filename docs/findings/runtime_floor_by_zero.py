"""Native division with rounding_mode="floor" returns an infinity for 0 / 0 and NaN / 0."""

import math

import torch
from common import Observation, main, run


class Floor(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.div(a, b, rounding_mode="floor")


def observe() -> Observation:
    inputs = (torch.tensor([0.0, math.nan, -0.0]), torch.zeros(3))
    expected, observed = Floor()(*inputs).tolist(), run(Floor(), inputs)[0].tolist()
    return Observation(expected, observed, wrong=not all(math.isnan(each) for each in observed))


if __name__ == "__main__":
    main(observe)
