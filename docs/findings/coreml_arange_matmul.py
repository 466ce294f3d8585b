"""CoreML multiplies matrices of constants as integers where one of them is an arange of floats."""

import torch
from common import Observation, main
from coreml_package import compare


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = torch.arange(3, dtype=torch.float32)[:, None]
        return x + rows @ torch.linspace(0, 1, 5)[None]


def observe() -> Observation:
    return compare(Model(), torch.zeros(3, 5))


if __name__ == "__main__":
    main(observe)
