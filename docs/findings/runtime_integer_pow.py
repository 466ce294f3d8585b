"""Native aten::pow computes powers of integers in floating point."""

import torch
from common import Observation, main, run


class Pow(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.pow(x, y)


def observe() -> Observation:
    pairs = []
    for inputs in (
        (torch.tensor([1_000_003]), torch.tensor([3])),
        (torch.tensor([3], dtype=torch.int32), torch.tensor([21], dtype=torch.int32)),
    ):
        pairs.append((Pow()(*inputs).item(), run(Pow(), inputs)[0].item()))
    return Observation(
        [expected for expected, _ in pairs],
        [observed for _, observed in pairs],
        wrong=any(expected != observed for expected, observed in pairs),
    )


if __name__ == "__main__":
    main(observe)
