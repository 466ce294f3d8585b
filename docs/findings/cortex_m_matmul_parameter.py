"""Cortex-M's quantizer cannot take a matmul whose operand is a parameter."""

import torch
from common import Observation, main, run_quantized_on_cortex_m


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(6, 4))
        self.bias = torch.nn.Parameter(torch.randn(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


def observe() -> Observation:
    try:
        run_quantized_on_cortex_m(Layer(), (torch.randn(2, 3, 6),))
    except Exception as error:  # the pass manager raises Exception
        reason = str(error.__cause__ or error).partition("\n")[0]
        return Observation("a quantized module", reason, wrong="to_tensor" in reason)
    return Observation("a quantized module", "a quantized module", wrong=False)


if __name__ == "__main__":
    main(observe)
