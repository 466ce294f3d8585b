"""Arm's TOSA passes drop a transposition before a subtraction from a number."""

import torch
from common import Observation, main, run_on_tosa

X = torch.arange(6.0).reshape(2, 3)


class Difference(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.5 - x.transpose(0, 1)


def observe() -> Observation:
    observed = run_on_tosa(Difference(), (X,))
    expected = Difference()(X)
    return Observation(
        expected.tolist(),
        observed.tolist(),
        wrong=torch.equal(observed.flatten(), (0.5 - X).flatten()),
    )


if __name__ == "__main__":
    main(observe)
