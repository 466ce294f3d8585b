"""Exir drops a write to a parameter."""

import torch
from common import Observation, load, lower, main


class Total(torch.nn.Module):
    """Returns the sum of its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.total = torch.nn.Parameter(torch.zeros(1), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * 1.0


def observe() -> Observation:
    """Call the program with 1, 2 and 3."""
    inputs = [torch.tensor([number]) for number in (1.0, 2.0, 3.0)]
    program = lower(Total(), (inputs[0],)).to_executorch().buffer
    method, module = load(bytes(program)), Total()
    expected = [[module(x).item()] for x in inputs]
    observed = [[each.item() for each in method.execute([x])] for x in inputs]
    return Observation(expected, observed, wrong=observed == [[1.0] * 2, [2.0] * 2, [3.0] * 2])


if __name__ == "__main__":
    main(observe)
