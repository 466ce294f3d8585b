"""Arm's quantizer casts to int32 where the program casts to int64."""

import torch
from common import Observation, main, rewrite_for_tosa

X = torch.tensor([0.5, 0.75])  # hours


class Microseconds(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 3.6e9).to(torch.int64).float() + x


def observe() -> Observation:
    expected, observed = Microseconds()(X), rewrite_for_tosa(Microseconds(), (X,))
    wrong = not torch.allclose(expected, observed, rtol=0.05)
    return Observation(expected.tolist(), observed.tolist(), wrong=wrong)


if __name__ == "__main__":
    main(observe)
