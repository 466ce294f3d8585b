"""Arm takes a mask of two dimensions for the index of one."""

import torch
from common import Observation, main, run_on_tosa

X, MASK = torch.ones(2, 2, 2), torch.tensor([[True, False], [False, False]])


class Fill(torch.nn.Module):
    """Fills the masked pixels of each channel."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[:, mask] = 0.0
        return y


def observe() -> Observation:
    expected = Fill()(X, MASK).tolist()
    observed = run_on_tosa(Fill(), (X, MASK)).tolist()
    return Observation(expected, observed, wrong=observed != expected)


if __name__ == "__main__":
    main(observe)
