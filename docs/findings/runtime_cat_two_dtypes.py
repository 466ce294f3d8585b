"""Native aten::cat of int32 and float32 reads the bits of the integers as floats."""

import torch
from common import Observation, main, run


class Cat(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.cat([a, b])


def observe() -> Observation:
    inputs = (torch.tensor([0.5]), torch.tensor([1, 2, 1_000_000], dtype=torch.int32))
    observed, expected = run(Cat(), inputs)[0], Cat()(*inputs)
    return Observation(
        expected.tolist(), observed.tolist(), wrong=not torch.equal(observed, expected)
    )


if __name__ == "__main__":
    main(observe)
