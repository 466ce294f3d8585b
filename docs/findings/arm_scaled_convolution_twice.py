"""Arm gives each use of a convolution the factor by which its first result is multiplied."""

import torch
from common import Observation, main, run_on_tosa

X, Y = torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 2)


class Head(torch.nn.Module):
    """One convolution for several levels, each with its own scale."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(1, 1, 1)
        torch.nn.init.ones_(self.layer.weight)
        torch.nn.init.zeros_(self.layer.bias)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.layer(x) * 0.5, self.layer(y) * 2.0


def observe() -> Observation:
    expected = [each.flatten().tolist() for each in Head()(X, Y)]
    observed = [each.flatten().tolist() for each in run_on_tosa(Head(), (X, Y))]
    return Observation(expected, observed, wrong=observed != expected)


if __name__ == "__main__":
    main(observe)
