"""Native aten::addmm multiplies the bias by beta=0, which keeps NaN and infinities."""

import math

import torch
from common import Observation, main, run


class Addmm(torch.nn.Module):
    def forward(self, b: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.addmm(b, x, y, beta=0)


def observe() -> Observation:
    inputs = (torch.full((1, 1), math.nan), torch.tensor([[2.0]]), torch.tensor([[3.0]]))
    expected, observed = Addmm()(*inputs).item(), run(Addmm(), inputs)[0].item()
    return Observation(expected, observed, wrong=math.isnan(observed))


if __name__ == "__main__":
    main(observe)
