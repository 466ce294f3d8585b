"""Arm's amax with an empty list of dimensions returns its input."""

import torch
from common import Observation, main, run_on_tosa

X = torch.tensor([[1.0, -2.0], [3.0, 4.0]])


class Normalized(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / x.abs().amax(keepdim=True)


def observe() -> Observation:
    expected, observed = Normalized()(X), run_on_tosa(Normalized(), (X,))
    wrong = not torch.allclose(expected, observed, atol=1e-3)
    return Observation(expected.tolist(), observed.tolist(), wrong=wrong)


if __name__ == "__main__":
    main(observe)
