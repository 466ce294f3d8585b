"""Cortex-M's quantizer cannot take a matmul whose operand is a parameter."""

import torch
from common import Observation, main, observe_error, run_quantized_on_cortex_m


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(6, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


def observe() -> Observation:
    inputs = (torch.randn(2, 3, 6),)
    return observe_error(
        "a quantized module", "'to_tensor'", lambda: run_quantized_on_cortex_m(Layer(), inputs)
    )


if __name__ == "__main__":
    main(observe)
