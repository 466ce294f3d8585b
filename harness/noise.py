"""Noise of the perturbed runs, with signs that are balanced over the runs of a block.

Over eight runs each rounding error of each element is positive in four and negative in four, in
one of the 70 ways to choose these, drawn for each element and operation. So its linear effect on
anything that follows adds up to nothing over the runs, and whatever one rounding can reach on
either side is reached. Independent signs agree in all of eight runs once in 128; antithetic pairs
would leave four independent runs, whose spread is too small too often.
"""

from __future__ import annotations

import functools
import itertools

import torch

BLOCK = 8
"""Runs over which signs are balanced; further runs are a block of their own."""


class Noise:
    """Draws the perturbations of one run.

    Args:
        seed: seeds all runs.
        sample: number of this run.
        samples: number of all runs.
    """

    def __init__(self, seed: int, sample: int, samples: int) -> None:
        block, index = divmod(sample, BLOCK)
        size = max(index + 1, min(BLOCK, samples - block * BLOCK))
        self._signs = _balanced(size)[index]
        self._sizes = torch.Generator().manual_seed(seed + sample)
        # Every run of the block draws the same choices.
        self._choices = torch.Generator().manual_seed(seed + (1 << 32) + block)

    def signs(self, shape: torch.Size) -> torch.Tensor:
        """Plus and minus one, float64."""
        choice = torch.empty(shape, dtype=torch.int32)
        choice.random_(len(self._signs), generator=self._choices)
        return self._signs[choice]

    def uniform(self, size: torch.Tensor) -> torch.Tensor:
        """Noise of up to that size, float64. Half of it at least, so that no error is left out;
        of varying size, so that equal errors along a chain do not cancel exactly."""
        noise = torch.empty(size.shape, dtype=torch.float64)
        noise.uniform_(0.5, 1.0, generator=self._sizes)
        noise.mul_(self.signs(size.shape)).mul_(size)
        # An infinity has no neighbourhood: perturbing it would make NaN.
        return noise.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)

    def permutation(self, length: int) -> torch.Tensor:
        """An order of that many elements, int64."""
        return torch.randperm(length, generator=self._sizes)


@functools.cache
def _balanced(size: int) -> torch.Tensor:
    """Each run's sign in each way to give half of ``size`` runs a plus: float64, (size, ways)."""
    signs = torch.full((size, 0), -1.0, dtype=torch.float64)
    for chosen in itertools.combinations(range(size), size // 2):
        column = torch.full((size, 1), -1.0, dtype=torch.float64)
        column[list(chosen)] = 1.0
        signs = torch.cat([signs, column], 1)
    return signs
