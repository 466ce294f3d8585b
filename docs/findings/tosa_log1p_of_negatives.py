"""Arm's log1p in floating point uses a Taylor series for every negative argument."""

import torch
from common import Observation, main, run_on_tosa


class Log1p(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log1p(x)


def observe() -> Observation:
    inputs = (torch.tensor([-0.99, -0.9, -0.5, 0.5]),)
    observed = run_on_tosa(Log1p(), inputs)
    x, expected = inputs[0].double(), torch.log1p(*inputs)
    series = sum(-((-x) ** power) / power for power in range(1, 7))
    print(f"six terms of the series: {series.tolist()}")
    follows = (observed - series).abs() < (observed - expected).abs()
    return Observation(
        expected.tolist(), observed.tolist(), wrong=bool(follows[inputs[0] < 0].all())
    )


if __name__ == "__main__":
    main(observe)
