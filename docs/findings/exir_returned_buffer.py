"""Exir writes a buffer before the program returns its old value."""

import torch
from common import Observation, load, lower, main


class Last(torch.nn.Module):
    """Returns its last input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        old = self.last
        self.last = x * 1.0
        return old


def observe() -> Observation:
    """Call the program with 1, 2 and 3."""
    inputs = [torch.tensor([number]) for number in (1.0, 2.0, 3.0)]
    program = lower(Last(), (inputs[0],)).to_executorch().buffer
    method, module = load(bytes(program)), Last()
    expected = [module(x).item() for x in inputs]
    observed = [method.execute([x])[0].item() for x in inputs]
    return Observation(expected, observed, wrong=observed == [1.0, 2.0, 3.0])


if __name__ == "__main__":
    main(observe)
