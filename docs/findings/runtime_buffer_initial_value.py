"""A mutable buffer begins with zeros: its initial value is not in the program."""

import torch
from common import Observation, main, run


class Previous(torch.nn.Module):
    """Returns what it was called with the time before, at first what the buffer began with."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.tensor([5.0, 6.0, 7.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        previous = self.state + 0
        self.state.copy_(x)
        return previous


def observe() -> Observation:
    inputs = (torch.tensor([1.0, 2.0, 3.0]),)
    observed = run(Previous(), inputs)[0]
    expected = Previous()(*inputs)
    return Observation(
        expected.tolist(), observed.tolist(), wrong=not torch.equal(observed, expected)
    )


if __name__ == "__main__":
    main(observe)
