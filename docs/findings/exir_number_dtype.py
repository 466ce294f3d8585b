"""Exir makes a Python number a tensor of float32 or int64, which changes values and dtypes."""

import torch
from common import Observation, main, run


class Offset(torch.nn.Module):
    def forward(self, t: torch.Tensor) -> torch.Tensor:
        return t - 1_700_000_050.0


class Next(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.max() + 1


class Half(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean() * 0.5


def observe() -> Observation:
    pairs = []
    for module, x in (
        (Offset(), torch.tensor([1_700_000_060.0], dtype=torch.float64)),
        (Next(), torch.tensor([3, 4], dtype=torch.int32)),
        (Half(), torch.tensor([1.0, 2.0], dtype=torch.float16)),
    ):
        pairs.append((run(module, (x,))[0], module(x)))
    return Observation(
        [(expected.dtype, expected.tolist()) for _, expected in pairs],
        [(observed.dtype, observed.tolist()) for observed, _ in pairs],
        wrong=any(a.dtype != b.dtype or not torch.equal(a, b) for a, b in pairs),
    )


if __name__ == "__main__":
    main(observe)
