"""Inductor's max_pool3d returns other positions than eager for a transposed input."""

import torch
from common import Observation, main

X = torch.arange(360.0).sin().reshape(1, 2, 6, 5, 6)


class Pool(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pool = torch.nn.functional.max_pool3d
        return pool(x.mT, 3, 2, return_indices=True)[1]


def observe() -> Observation:
    expected, observed = Pool()(X), torch.compile(Pool())(X)
    return Observation(
        expected.flatten()[:4].tolist(),
        observed.flatten()[:4].tolist(),
        wrong=not torch.equal(expected, observed),
    )


if __name__ == "__main__":
    main(observe)
