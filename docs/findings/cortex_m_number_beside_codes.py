"""Cortex-M compares and fills int8 codes with numbers that are not quantized."""

import torch
from common import Observation, main, run_quantized_on_cortex_m


class Gate(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 0.5, x, y)


def observe() -> Observation:
    x = torch.tensor([-1.0, -0.4, 0.2, 0.4, 0.6, 1.0])
    expected, observed = run_quantized_on_cortex_m(Gate(), (x, torch.full_like(x, -1.0)))
    return Observation(
        [round(value, 2) for value in expected.tolist()],
        [round(value, 2) for value in observed.tolist()],
        wrong=not torch.equal(expected, observed),
    )


if __name__ == "__main__":
    main(observe)
