"""Arm stores values transposed where the index tensors are adjacent and not in front."""

import torch
from common import Observation, main, run_on_tosa

X, VALUE = torch.zeros(2, 2, 2), torch.tensor([[1.0, 2.0], [3.0, 4.0]])


class Diagonals(torch.nn.Module):
    """Writes a row of values to the diagonal of each matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("place", torch.arange(2))

    def forward(self, x: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[:, self.place, self.place] = value
        return y


def observe() -> Observation:
    expected = Diagonals()(X, VALUE).tolist()
    observed = run_on_tosa(Diagonals(), (X, VALUE)).tolist()
    return Observation(expected, observed, wrong=observed != expected)


if __name__ == "__main__":
    main(observe)
