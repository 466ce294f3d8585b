"""Arm's full_like has the dtype of its input, whatever dtype says."""

import torch
from common import Observation, main, run_on_tosa

X = torch.tensor([0.0, 1.0])


class Sum(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.full_like(x, 2.7, dtype=torch.int32) + x


def observe() -> Observation:
    expected, observed = Sum()(X), run_on_tosa(Sum(), (X,))
    wrong = not torch.allclose(expected, observed, atol=1e-3)
    return Observation(expected.tolist(), observed.tolist(), wrong=wrong)


if __name__ == "__main__":
    main(observe)
