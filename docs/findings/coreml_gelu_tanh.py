"""coremltools drops the approximate argument of gelu."""

import torch
from common import Observation, main
from coreml_package import compare

X = torch.tensor([-2.0, -1.0, 0.5, 2.0])


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x, approximate="tanh")


def observe() -> Observation:
    return compare(Model(), X, atol=1e-5)


if __name__ == "__main__":
    main(observe)
