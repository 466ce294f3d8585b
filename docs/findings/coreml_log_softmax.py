"""coremltools computes log_softmax as the logarithm of a softmax, which underflows."""

import torch
from common import Observation, main
from coreml_package import compare

X = torch.tensor([[0.0, 50.0, 10.0]])


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(x, -1)


def observe() -> Observation:
    return compare(Model(), X, precision="FLOAT16", atol=0.1)


if __name__ == "__main__":
    main(observe)
