"""Native aten::remainder uses the dividend's sign for integers, as C does, and rounds float64 to
float32."""

import torch
from common import Observation, main, run


class Remainder(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.remainder(a, b)


def observe() -> Observation:
    pairs = []
    for inputs in (
        (torch.tensor([-7, 7, -6]), torch.tensor([3, -3, 4])),
        (torch.tensor([1e9 + 0.1], dtype=torch.float64), torch.tensor([7.0], dtype=torch.float64)),
    ):
        pairs.append((run(Remainder(), inputs)[0], torch.remainder(*inputs)))
    return Observation(
        [expected.tolist() for _, expected in pairs],
        [observed.tolist() for observed, _ in pairs],
        wrong=any(not torch.equal(*pair) for pair in pairs),
    )


if __name__ == "__main__":
    main(observe)
