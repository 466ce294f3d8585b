"""coremltools takes values between -1 and 1 for false in any."""

import torch
from common import Observation, main
from coreml_package import compare

X = torch.tensor([[0.0, 0.5], [0.0, 0.0], [2.0, 0.0]])


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.any(x, 1)


def observe() -> Observation:
    return compare(Model(), X)


if __name__ == "__main__":
    main(observe)
