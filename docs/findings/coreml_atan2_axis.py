"""coremltools' atan2 is 0 instead of pi for y = 0 and a negative x."""

import torch
from common import Observation, main
from coreml_package import compare

Y, X = torch.tensor([0.0, 1.0]), torch.tensor([-1.0, -1.0])


class Model(torch.nn.Module):
    def forward(self, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.atan2(y, x)


def observe() -> Observation:
    return compare(Model(), Y, X)


if __name__ == "__main__":
    main(observe)
