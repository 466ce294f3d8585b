"""MLX gives a transposed convolution the constant of a convolution with the same weight."""

import torch
from common import Observation, main
from mlx_package import content

X = torch.randn(1, 4, 6)


class Tied(torch.nn.Module):
    def __init__(self, copy: bool) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, 4, 3))
        self.other = torch.nn.Parameter(self.weight.detach().clone()) if copy else self.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.nn.functional.conv1d(x, self.weight, padding=1)
        return torch.nn.functional.conv_transpose1d(hidden, self.other, padding=1)


def observe() -> Observation:
    def weights(copy: bool) -> int:
        return len(set(content(Tied(copy), (X,))["constants"].values()))

    expected, observed = weights(copy=True), weights(copy=False)
    return Observation(
        f"{expected} constants: the two layers need other orders of dimensions",
        f"{observed} constant, which both layers read",
        wrong=observed < expected,
    )


if __name__ == "__main__":
    main(observe)
