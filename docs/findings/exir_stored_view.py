"""Exir stores a view of a buffer after the buffer is overwritten."""

import torch
from common import Observation, load, lower, main


class Delayed(torch.nn.Module):
    """Returns the input of the call before the last."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(1, 2))
        self.register_buffer("older", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = self.older * 1.0
        self.older.copy_(self.last.view(2))
        self.last.copy_(x)
        return result


def observe() -> Observation:
    """Call the program with 1, 2, 3 and 4."""
    inputs = [torch.full((1, 2), number) for number in (1.0, 2.0, 3.0, 4.0)]
    program = lower(Delayed(), (inputs[0],)).to_executorch().buffer
    method, module = load(bytes(program)), Delayed()
    expected = [module(x)[0].item() for x in inputs]
    observed = [method.execute([x])[0][0].item() for x in inputs]
    return Observation(expected, observed, wrong=observed == [0.0, 1.0, 2.0, 3.0])


if __name__ == "__main__":
    main(observe)
