"""Arm's DecomposeSignPass computes zeros as x * 0, and the sign of an infinity with them: NaN."""

import torch
from common import Observation, main, run_on_tosa

X = torch.tensor([-torch.inf, -2.0, 0.0, 1.0, torch.inf])


class Sign(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sign(x)


def observe() -> Observation:
    expected, observed = Sign()(X), run_on_tosa(Sign(), (X,))
    return Observation(
        expected.tolist(), observed.tolist(), wrong=bool(observed[[0, -1]].isnan().any())
    )


if __name__ == "__main__":
    main(observe)
