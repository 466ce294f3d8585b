"""Cortex-M pads another dimension behind a pooling of a contiguous tensor."""

import torch
from common import Observation, main, run_quantized_on_cortex_m


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = torch.nn.functional.max_pool2d(x, (2, 1))
        return torch.nn.functional.pad(pooled, (0, 0, 1, 1))  # two rows


def observe() -> Observation:
    x = torch.linspace(-1, 1, 96).reshape(1, 4, 8, 3)
    expected, observed = run_quantized_on_cortex_m(Model(), (x,))
    return Observation(
        list(expected.shape), list(observed.shape), wrong=expected.shape != observed.shape
    )


if __name__ == "__main__":
    main(observe)
