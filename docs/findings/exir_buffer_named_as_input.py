"""Exir writes an input in place of the buffer that has its name."""

import torch
from common import Observation, load, lower, main


class Sum(torch.nn.Module):
    """Adds its earlier inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("x", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.x.add_(x)
        return self.x * 1.0


def observe() -> Observation:
    """Call the program with 1, 2 and 3."""
    inputs = [torch.tensor([number]) for number in (1.0, 2.0, 3.0)]
    program = lower(Sum(), (inputs[0],)).to_executorch().buffer
    method, module = load(bytes(program)), Sum()
    expected = [module(x).item() for x in inputs]
    observed = [method.execute([x.clone()])[0].item() for x in inputs]
    return Observation(expected, observed, wrong=observed == [1.0, 2.0, 3.0])


if __name__ == "__main__":
    main(observe)
