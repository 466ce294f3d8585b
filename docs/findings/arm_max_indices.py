"""Arm's quantizer replaces the indices of a maximum by its values."""

import torch
from common import Observation, main, rewrite_for_tosa

X = torch.tensor([[0.25, 4.5, 0.5]])


class Position(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.max(1)[1].float() + x[:, 0]


def observe() -> Observation:
    expected, observed = Position()(X), rewrite_for_tosa(Position(), (X,))
    wrong = not torch.allclose(expected, observed, atol=0.05)
    return Observation(expected.tolist(), observed.tolist(), wrong=wrong)


if __name__ == "__main__":
    main(observe)
