"""coremltools drops the alpha of rsub, and the partitioner delegates it."""

import torch
from common import Observation, main
from coreml_package import compare

X, Y = torch.tensor([1.0, 2.0]), torch.tensor([5.0, 7.0])


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.rsub(x, y, alpha=2)


def observe() -> Observation:
    return compare(Model(), X, Y)


if __name__ == "__main__":
    main(observe)
