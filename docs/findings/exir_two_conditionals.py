"""The result of a conditional is overwritten by the next conditional."""

import torch
from common import Observation, main, run

X = torch.tensor([[-0.25, -0.25]])


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first = torch.cond(x.sum() > -1, lambda x: x * 2, lambda x: x - 1, (x,))
        second = torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))
        return first, second


def observe() -> Observation:
    expected = Twice()(X)
    observed = run(Twice(), (X,))
    return Observation(
        [each.tolist() for each in expected],
        [each.tolist() for each in observed],
        wrong=torch.equal(observed[0], expected[1]) and torch.equal(observed[1], expected[1]),
    )


if __name__ == "__main__":
    main(observe)
