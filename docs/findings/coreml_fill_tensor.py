"""coremltools fills with 0 where the value is a tensor that the program gets."""

import torch
from common import Observation, main
from coreml_package import compare

X, Y = torch.zeros(3), torch.tensor(0.5)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.fill(x, y)


def observe() -> Observation:
    return compare(Model(), X, Y)


if __name__ == "__main__":
    main(observe)
