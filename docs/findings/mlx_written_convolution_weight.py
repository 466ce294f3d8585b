"""MLX stores the first value of a convolution's weight, although the program writes the weight."""

import torch
from common import Observation, main
from mlx_package import content

X = torch.randn(1, 4, 6)


class Written(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(4, 4, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = torch.nn.functional.conv1d(x, self.weight)
        self.weight.add_(x.mean())
        return result


def observe() -> Observation:
    constants = content(Written(), (X,))["constants"]
    copies = [name for name, value in constants.items() if len(value) == 4 * 4 * 3 * 4]
    return Observation(
        "the convolution reads the buffer", f"it reads constants: {copies}", wrong=bool(copies)
    )


if __name__ == "__main__":
    main(observe)
