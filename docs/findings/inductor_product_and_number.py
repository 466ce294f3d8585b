"""Inductor cannot compile a matrix product plus a 0-D tensor with max_autotune, which Metal's
backend enables."""

import torch
from common import Observation, main

INPUTS = torch.randn(5, 4), torch.randn(4, 5), torch.tensor(0.5)


class Shifted(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        return x @ y + shift


def observe() -> Observation:
    try:
        torch.compile(Shifted(), options={"max_autotune": True})(*INPUTS)
    except Exception as error:
        said = str(error).strip().partition("\n")[0]
        return Observation("a program", said, wrong="list index out of range" in said)
    return Observation("a program", "a program", wrong=False)


if __name__ == "__main__":
    main(observe)
