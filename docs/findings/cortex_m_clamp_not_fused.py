"""Cortex-M adds int8 codes where it cannot fuse the clamp behind the addition."""

import torch
from common import Observation, main, run_quantized_on_cortex_m


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x + y).clamp(min=0.5)


def observe() -> Observation:
    x = torch.tensor([-2.0, -1.0, 0.0, 0.5, 1.0, 2.0])
    expected, observed = run_quantized_on_cortex_m(Model(), (x, x * 0.5))
    return Observation(
        [round(value, 2) for value in expected.tolist()],
        [round(value, 2) for value in observed.tolist()],
        wrong=float((expected - observed).abs().max()) > 0.1,
    )


if __name__ == "__main__":
    main(observe)
