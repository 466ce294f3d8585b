"""CoreMLPartitioner takes the branches of torch.cond into a partition, and lowering fails."""

import torch
from common import Observation, main
from coreml_package import convert


class Branches(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))


def observe() -> Observation:
    try:
        convert(Branches(), (torch.randn(3, 4),))
    except AssertionError as error:
        return Observation("a program", f"AssertionError {error}", wrong=True)
    return Observation("a program", "a program", wrong=False)


if __name__ == "__main__":
    main(observe)
