"""Cortex-M applies a relu, hardtanh or clamp behind tanh and sigmoid to int8 codes."""

import torch
from common import Observation, main, run_quantized_on_cortex_m


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.hardtanh(torch.tanh(x), -0.5, 0.5)


def observe() -> Observation:
    x = torch.tensor([-2.0, -1.0, -0.5, -0.2, 0.0, 0.3, 0.5, 2.0])
    expected, observed = run_quantized_on_cortex_m(Model(), (x,))
    return Observation(
        [round(value, 2) for value in expected.tolist()],
        [round(value, 2) for value in observed.tolist()],
        wrong=float((expected - observed).abs().max()) > 0.1,
    )


if __name__ == "__main__":
    main(observe)
