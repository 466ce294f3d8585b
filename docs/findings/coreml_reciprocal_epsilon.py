"""coremltools adds 0.0001 to the argument of a reciprocal."""

import torch
from common import Observation, main
from coreml_package import compare

X = torch.tensor([0.01, 0.5, -2.0])


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.reciprocal(x)


def observe() -> Observation:
    return compare(Model(), X)


if __name__ == "__main__":
    main(observe)
