"""XNNPACK's runtime refuses an unsqueeze between two quantized operators with different scales."""

import torch
from common import Observation, main, observe_error, run_quantized_on_xnnpack


class Joined(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([(x + x).unsqueeze(-1), (x * 99).unsqueeze(-1)], -1)


def observe() -> Observation:
    inputs = (torch.linspace(-1, 1, 8).reshape(2, 4),)
    return observe_error(
        "a result", "Failed to load method", lambda: run_quantized_on_xnnpack(Joined(), inputs)
    )


if __name__ == "__main__":
    main(observe)
