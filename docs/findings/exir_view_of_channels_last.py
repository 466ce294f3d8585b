"""Exir makes a view of a channels-last tensor read its memory as if it were contiguous."""

import torch
from common import Observation, main, run


class Positions(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(2).argmax(-1)


def observe() -> Observation:
    x = torch.zeros(1, 2, 2, 2)
    x[0, 0, 0, 1] = x[0, 1, 1, 1] = 1.0
    x = x.to(memory_format=torch.channels_last)
    expected, observed = Positions()(x).tolist(), run(Positions(), (x,))[0].tolist()
    return Observation(expected, observed, wrong=expected != observed)


if __name__ == "__main__":
    main(observe)
