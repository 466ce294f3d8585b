"""Native add scales the wrong operand by alpha where the first one has one element."""

import torch
from common import Observation, main, run

ONE, MANY = torch.tensor(1.0), torch.tensor([10.0, 20.0])


class Add(torch.nn.Module):
    def forward(self, one: torch.Tensor, many: torch.Tensor) -> torch.Tensor:
        return torch.add(one, many, alpha=2)


def observe() -> Observation:
    expected = Add()(ONE, MANY)
    (observed,) = run(Add(), (ONE, MANY))
    swapped = torch.add(MANY, ONE, alpha=2)
    return Observation(expected.tolist(), observed.tolist(), wrong=torch.equal(observed, swapped))


if __name__ == "__main__":
    main(observe)
