"""Arm's avg_pool2d with ceil_mode scales the mean of a window that ends outside."""

import torch
from common import Observation, main, run_on_tosa

X = torch.full((1, 1, 3, 3), 3.0)


class Pool(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.avg_pool2d(x, 2, 2, ceil_mode=True, divisor_override=3)


def observe() -> Observation:
    expected, observed = Pool()(X), run_on_tosa(Pool(), (X,))
    wrong = not torch.allclose(expected, observed, atol=1e-3)
    return Observation(expected.flatten().tolist(), observed.flatten().tolist(), wrong=wrong)


if __name__ == "__main__":
    main(observe)
