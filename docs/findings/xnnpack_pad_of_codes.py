"""XNNPACK's runtime refuses the zero pad behind a quantized operator."""

import torch
from common import Observation, main, observe_error, run_quantized_on_xnnpack


class Padded(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(x + x, (1, 2))


def observe() -> Observation:
    inputs = (torch.linspace(-1, 1, 8).reshape(2, 4),)
    return observe_error(
        "a result", "Failed to load method", lambda: run_quantized_on_xnnpack(Padded(), inputs)
    )


if __name__ == "__main__":
    main(observe)
