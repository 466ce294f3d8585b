"""coremltools computes the biased variance for torch.var of all elements."""

import torch
from common import Observation, main
from coreml_package import compare

X = torch.tensor([1.0, 2.0, 4.0])


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.var(x)


def observe() -> Observation:
    return compare(Model(), X)


if __name__ == "__main__":
    main(observe)
