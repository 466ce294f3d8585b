"""Exir drops a write whose new value is another buffer."""

import torch
from common import Observation, load, lower, main


class LastThree(torch.nn.Module):
    """Adds its last three inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("older", torch.zeros(1))
        self.register_buffer("last", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = x + self.last + self.older
        self.older.copy_(self.last)
        self.last.copy_(x)
        return result


def observe() -> Observation:
    """Call the program with 1, 2, 3 and 4."""
    inputs = [torch.tensor([number]) for number in (1.0, 2.0, 3.0, 4.0)]
    program = lower(LastThree(), (inputs[0],)).to_executorch().buffer
    method, module = load(bytes(program)), LastThree()
    expected = [module(x).item() for x in inputs]
    observed = [method.execute([x])[0].item() for x in inputs]
    return Observation(expected, observed, wrong=observed == [1.0, 3.0, 5.0, 7.0])


if __name__ == "__main__":
    main(observe)
