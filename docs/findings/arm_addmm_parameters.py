"""Arm's quantizer cannot take an addmm whose bias is a parameter."""

import torch
from common import Observation, main, observe_error, rewrite_for_tosa


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(6, 4))
        self.bias = torch.nn.Parameter(torch.randn(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(self.bias, x, self.weight)


def observe() -> Observation:
    inputs = (torch.randn(3, 6),)
    return observe_error(
        "a quantized module", "'to_tensor'", lambda: rewrite_for_tosa(Layer(), inputs)
    )


if __name__ == "__main__":
    main(observe)
