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
from typing import Any, TypeAlias

import torch

Patterns: TypeAlias = dict[tuple[int, int], list[tuple[torch.Tensor, torch.Tensor]]]
"""Matrix and first row of each element, in parts; by block of runs and number of elements."""

BLOCK = 8
"""Runs over which signs are balanced; further runs are blocks of their own."""

_ROWS = BLOCK - 1

# Larger tensors are disturbed in parts of so many elements, which a cache holds.
_PART = 2**20


class Noise:
    """Draws the perturbations of one run.

    Args:
        seed: seeds all runs.
        sample: number of this run.
        patterns: what the runs of a block share of large tensors, for the next of them.
    """

    def __init__(self, seed: int, sample: int, patterns: Patterns | None = None) -> None:
        block, run = divmod(sample, BLOCK)
        self._signs = _matrices()[run]
        self._sizes = torch.Generator().manual_seed(seed + sample)
        # Every run of a block draws the same matrices, rows and signs. Generators take the lower 32
        # bits of a seed; Knuth's multiplier keeps it away from those of the sizes.
        self._shared = torch.Generator().manual_seed(seed + 2654435761 * (block + 1))
        self._starts: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._patterns = {} if patterns is None else patterns
        self._block = block
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

    def disturb(self, tensor: torch.Tensor, size: torch.Tensor, factor: Any = 1.0) -> None:
        """Add noise of up to ``size * factor`` to a float64 tensor in place; in parts, if it is
        large."""
        if tensor.numel() <= _PART or not tensor.is_contiguous() or not isinstance(factor, float):
            tensor.add_(self.uniform(size * factor))
            return
        values, sizes, count = tensor.view(-1), size.expand_as(tensor).reshape(-1), tensor.numel()
        if (self._block, count) not in self._patterns:
            self._patterns[self._block, count] = self._pattern(count)
        self._operations += 1
        noise = torch.empty(_PART, dtype=torch.float64)
        for number, (matrix, start) in enumerate(self._patterns[self._block, count]):
            here = slice(number * _PART, number * _PART + len(start))
            chosen = start.add(self._operations % _ROWS).remainder_(_ROWS).add(matrix)
            chosen = self._draw(len(start), 2).mul_(_ROWS).add_(chosen)
            part = noise[: len(start)].uniform_(0.5, 1.0, generator=self._sizes)
            part.mul_(self._signs[chosen]).mul_(sizes[here]).mul_(factor)
            values[here].add_(part.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0))

    def sides(self, shape: torch.Size) -> torch.Tensor:
        """Plus and minus one, float64: the same in every run of a block."""
        return self._draw(shape.numel(), 2).reshape(shape).double().mul_(2).sub_(1)

    def permutation(self, length: int) -> torch.Tensor:
        """An order of that many elements, int64."""
        return torch.randperm(length, generator=self._sizes)

    def _pattern(self, count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        # Of a generator of its own: a run that finds it made draws the same afterwards.
        generator = torch.Generator().manual_seed(self._shared.initial_seed() + count)

        def draw(length: int, below: int, dtype: torch.dtype) -> torch.Tensor:
            drawn = torch.empty(length, dtype=torch.int32).random_(below, generator=generator)
            return drawn.to(dtype)

        lengths = [min(_PART, count - start) for start in range(0, count, _PART)]
        matrices = len(self._signs) // (2 * _ROWS)
        return [
            (
                draw(length, matrices, torch.int16).mul_(2 * _ROWS),
                draw(length, _ROWS, torch.int8),
            )
            for length in lengths
        ]

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
