"""Exir removes empty tensors from a cat although their dtype decides that of the result."""

import torch
from common import Observation, main, run


class Cat(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.zeros(0), x])


def observe() -> Observation:
    x = torch.tensor([1, 2])
    expected, observed = Cat()(x), run(Cat(), (x,))[0]
    return Observation(
        (expected.dtype, expected.tolist()),
        (observed.dtype, observed.tolist()),
        wrong=expected.dtype != observed.dtype,
    )


if __name__ == "__main__":
    main(observe)
