"""Noise of the perturbed runs, with signs that are balanced over each eight of them.

The signs of one rounding error over eight runs are a row of a Hadamard matrix, or its opposite:
four are positive and four negative, and two different rows agree in four runs. An element's row
moves on with every operation, so that up to seven errors of an elementwise chain never cancel in
all runs, and two of them meet in each of their four combinations of signs. Which of the 30 matrices
an element has, the row it begins with and all signs are random, so that errors that a sum or a
broadcast brings together are independent.

With independent signs one rounding has the same sign in all of eight runs once in 128 elements, and
two cancel in all of them once in 256; with antithetic pairs two cancel once in 16.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import torch

BLOCK = 8
"""Runs over which signs are balanced; further runs are blocks of their own."""

_ROWS = BLOCK - 1


class Noise:
    """Draws the perturbations of one run.

    Args:
        seed: seeds all runs.
        sample: number of this run.
    """

    def __init__(self, seed: int, sample: int) -> None:
        block, run = divmod(sample, BLOCK)
        self._signs = _matrices()[run]
        self._sizes = torch.Generator().manual_seed(seed + sample)
        # Every run of a block draws the same matrices, rows and signs. Generators take the lower 32
        # bits of a seed; Knuth's multiplier keeps it away from those of the sizes.
        self._shared = torch.Generator().manual_seed(seed + 2654435761 * (block + 1))
        self._starts: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._operations = 0

    def signs(self, shape: torch.Size, rows: Sequence[int] = ()) -> torch.Tensor:
        """Plus and minus one, float64.

        Args:
            shape: of the result.
            rows: of the first matrix, to choose among; by default of all, as the operation says.
        """
        count = shape.numel()
        opposite = self._draw(count, 2)
        if rows:
            chosen = torch.tensor(rows, dtype=torch.int32)[self._draw(count, len(rows)).long()]
        else:
            if count not in self._starts:
                matrix = self._draw(count, len(self._signs) // (2 * _ROWS))
                self._starts[count] = matrix.mul_(2 * _ROWS), self._draw(count, _ROWS)
            self._operations += 1
            matrix, start = self._starts[count]
            chosen = (start + self._operations).remainder_(_ROWS).add_(matrix)
        return self._signs[chosen.add_(opposite.mul_(_ROWS))].reshape(shape)

    def uniform(self, size: torch.Tensor, rows: Sequence[int] = ()) -> torch.Tensor:
        """Noise of up to that size, float64. Half of it at least, so that no error is left out;
        of varying size, so that equal errors along a chain do not cancel exactly."""
        noise = torch.empty(size.shape, dtype=torch.float64)
        noise.uniform_(0.5, 1.0, generator=self._sizes)
        noise.mul_(self.signs(size.shape, rows)).mul_(size)
        # An infinity has no neighbourhood: perturbing it would make NaN.
        return noise.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)

    def permutation(self, length: int) -> torch.Tensor:
        """An order of that many elements, int64."""
        return torch.randperm(length, generator=self._sizes)

    def _draw(self, count: int, below: int) -> torch.Tensor:
        drawn = torch.empty(count, dtype=torch.int32)
        return drawn.random_(below, generator=self._shared)


@functools.cache
def _matrices() -> torch.Tensor:
    """The signs of each row of each matrix: float64, (run, matrix * row); seven rows of a matrix,
    then their opposites.

    Sylvester's matrix of order 8, without the row of one sign, and what becomes of it when runs
    change places: 30 sets of rows that differ.
    """
    first = [[(row & run).bit_count() % 2 for run in range(BLOCK)] for row in range(1, BLOCK)]
    matrices: dict[frozenset[tuple[int, ...]], list[tuple[int, ...]]] = {}
    for order in itertools.permutations(range(1, BLOCK)):
        rows = [(0, *(row[run] for run in order)) for row in first]
        matrices.setdefault(frozenset(rows), rows)
        if len(matrices) == 30:
            break
    signs = 1 - 2 * torch.tensor(list(matrices.values()), dtype=torch.float64)
    return torch.cat([signs, -signs], 1).reshape(-1, BLOCK).T.contiguous()
