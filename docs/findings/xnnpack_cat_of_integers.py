"""XNNPACK's quantizer observes a cat of integers, which has no histogram."""

import torch
from common import Observation, main, quantize_for_xnnpack


class Tokens(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(10, 4)
        self.register_buffer("first", torch.tensor([[1]]))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.embedding(torch.cat([self.first, tokens], 1))


def observe() -> Observation:
    try:
        quantize_for_xnnpack(Tokens(), (torch.randint(0, 10, (1, 5)),))
    except NotImplementedError as error:
        return Observation("a quantized module", str(error), wrong=True)
    return Observation("a quantized module", "a quantized module", wrong=False)


if __name__ == "__main__":
    main(observe)
