"""XNNPACK's quantizer observes a cat of integers, which has no histogram."""

import torch
from common import Observation, main, observe_error, quantize_for_xnnpack


class Tokens(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(10, 4)
        self.register_buffer("first", torch.tensor([[1]]))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.embedding(torch.cat([self.first, tokens], 1))


def observe() -> Observation:
    inputs = (torch.randint(0, 10, (1, 5)),)
    return observe_error(
        "a quantized module", "histogram_cpu", lambda: quantize_for_xnnpack(Tokens(), inputs)
    )


if __name__ == "__main__":
    main(observe)
