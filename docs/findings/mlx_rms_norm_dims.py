"""MLX fuses a mean over any dimension into an RMS norm over the last one."""

import torch
from common import Observation, main
from mlx_package import compare_payloads, content, operators


class Norm(torch.nn.Module):
    """The RMS norm as Llama computes it, along any dimension."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.weight = torch.nn.Parameter(torch.ones(4), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        variance = x.pow(2).mean(self.dim, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + 1e-6))


def observe() -> Observation:
    inputs = (torch.arange(16.0).reshape(4, 4),)
    rows, columns = Norm(-1), Norm(0)
    largest = (rows(*inputs) - columns(*inputs)).abs().max()
    print(f"in eager the two differ by up to {float(largest):.3f}")
    lowered = content(columns, inputs)
    print(f"columns lowered: {operators(lowered['instructions'])}")
    expected = "norms of rows and of columns have different payloads"
    return compare_payloads(expected, content(rows, inputs), lowered)


if __name__ == "__main__":
    main(observe)
