"""Arm's InsertDataLayoutCastsPass moves int32 values as float32, which rounds those above 2**24."""

import torch
from common import Observation, main, run_on_tosa

X = torch.tensor([[16777217, 33554433], [123456789, 2147483647]], dtype=torch.int32)


class Transposed(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.permute(1, 0).clone()


def observe() -> Observation:
    expected, observed = Transposed()(X).tolist(), run_on_tosa(Transposed(), (X,)).tolist()
    return Observation(expected, observed, wrong=observed != expected)


if __name__ == "__main__":
    main(observe)
