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
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import torch

BLOCK = 8
"""Runs over which signs are balanced; further runs are blocks of their own."""

_ROWS = BLOCK - 1

# The noise of larger tensors is cut from a pool, in parts of so many elements: what a cache holds.
_LARGE = 2**17
_PART = 2**17
# Where in the pool a part may begin.
_STARTS = 2**18
# Sizes in the pool are integers; this is 1.
_ONE = 2**15


@dataclass
class Pool:
    """Random numbers that the runs of a block cut the noise of large tensors from.

    Each part of a tensor begins at a random place of the pool. That of its rows is the same in all
    operations, so that an element's row moves on; those of its flips and of its sizes are drawn
    anew.

    Attributes:
        rows: uint8, (7, length): signs of an element in the seven operations that follow each
            other; bit r is set where that of run r is negative.
        flips: int16, 0 or -1: all signs are the opposite.
        sizes: int16, from half of ``_ONE`` to ``_ONE``.
        starts: by number of elements, where the rows of each part begin.
        seed: of where they begin.
    """

    rows: torch.Tensor
    flips: torch.Tensor
    sizes: torch.Tensor
    seed: int
    starts: dict[int, list[int]] = field(default_factory=dict)

    @staticmethod
    def filled(seed: int) -> Pool:
        """Draw one."""
        generator = torch.Generator().manual_seed(seed)

        def draw(low: int, high: int) -> torch.Tensor:
            drawn = torch.empty(_STARTS + _PART, dtype=torch.int16)
            return drawn.random_(low, high, generator=generator)

        table = _bytes()
        rows = table.index_select(0, draw(0, len(table)).int()).T.contiguous()
        return Pool(rows, draw(-1, 1), draw(_ONE // 2, _ONE), seed)

    def starts_of(self, count: int) -> list[int]:
        """Where the rows of each part of a tensor of so many elements begin."""
        if count not in self.starts:
            generator = torch.Generator().manual_seed(self.seed + count)
            self.starts[count] = places(count, generator)
        return self.starts[count]


def places(count: int, generator: torch.Generator) -> list[int]:
    """A random place in the pool for each part of so many elements."""
    return torch.randint(_STARTS, (-(-count // _PART),), generator=generator).tolist()


Patterns: TypeAlias = dict[int, Pool]
"""The pool of each block of runs that met a large tensor."""


class Noise:
    """Draws the perturbations of one run.

    Args:
        seed: seeds all runs.
        sample: number of this run.
        patterns: what the runs of a block share of large tensors, for the next of them.
    """

    def __init__(self, seed: int, sample: int, patterns: Patterns | None = None) -> None:
        self._block, self._run = divmod(sample, BLOCK)
        self._signs = _matrices()[self._run]
        self._sizes = torch.Generator().manual_seed(seed + sample)
        # Every run of a block draws the same matrices, rows and signs. Generators take the lower 32
        # bits of a seed; Knuth's multiplier keeps it away from those of the sizes.
        self._shared = torch.Generator().manual_seed(seed + 2654435761 * (self._block + 1))
        self._starts: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._patterns = {} if patterns is None else patterns
        self._planes: dict[int, torch.Tensor] = {}
        self._operations = 0

    def signs(self, shape: torch.Size, rows: Sequence[int] = ()) -> torch.Tensor:
        """Plus and minus one, float64.

        Args:
            shape: of the result.
            rows: of the first matrix, to choose among; by default of all, as the operation says.
        """
        count = shape.numel()
        if count >= _LARGE and not rows:
            signs = torch.empty(count, dtype=torch.float64)
            for here, negative, _ in self._cut(count):
                signs[here].copy_(negative).mul_(2).add_(1)
            return signs.reshape(shape)
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
        if size.numel() >= _LARGE and not rows:
            large = torch.zeros_like(size)
            self.disturb(large, size)
            return large
        noise = torch.empty(size.shape, dtype=torch.float64)
        noise.uniform_(0.5, 1.0, generator=self._sizes)
        noise.mul_(self.signs(size.shape, rows)).mul_(size)
        # An infinity has no neighbourhood: perturbing it would make NaN.
        return noise.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)

    def disturb(
        self,
        tensor: torch.Tensor,
        size: torch.Tensor | None = None,
        factor: float | torch.Tensor = 1.0,
    ) -> None:
        """Add noise of up to ``size * factor`` to a float64 tensor in place.

        Args:
            tensor: what is added to.
            size: broadcasts with the tensor; None for the tensor's own absolute values.
            factor: broadcasts with the size.
        """
        values = tensor if tensor.numel() < _LARGE else tensor.permute(tensor.dim_order())
        if tensor.numel() < _LARGE or not values.is_contiguous():
            size = (tensor.abs() if size is None else size) * factor
            tensor.add_(self.uniform(size.expand_as(tensor)))
            return
        if isinstance(factor, torch.Tensor):
            size, factor = (tensor if size is None else size) * factor, 1.0
        sizes = values if size is None else size.expand_as(tensor).permute(tensor.dim_order())
        self._disturb(values.view(-1), sizes.reshape(-1), factor / _ONE)

    def disturbed(self, tensor: torch.Tensor, factor: float) -> torch.Tensor:
        """A copy with noise of up to ``|tensor| * factor``."""
        copy = tensor.clone()
        self.disturb(copy, factor=factor)
        return copy

    def _disturb(self, values: torch.Tensor, sizes: torch.Tensor, factor: float) -> None:
        """The same for flat tensors, in parts. The sign of a size tells nothing."""
        noise, wide = (torch.empty(_PART, dtype=torch.float64) for _ in range(2))
        for here, negative, size in self._cut(len(values)):
            part = noise[: len(size)].copy_(negative.bitwise_xor_(size))
            amplitude = sizes[here]
            if amplitude.dtype != torch.float64:
                amplitude = wide[: len(size)].copy_(amplitude)
            if not math.isfinite(float(amplitude.sum())):
                amplitude = amplitude.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
            values[here].addcmul_(part, amplitude, value=factor)

    def _cut(self, count: int) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor]]:
        """Parts of a tensor of so many elements: where they are, 0 for a positive and -1 for a
        negative sign, which may be written to, and sizes in units of ``_ONE``; int16."""
        if self._block not in self._patterns:
            self._patterns[self._block] = Pool.filled(self._shared.initial_seed() + 1)
        pool = self._patterns[self._block]
        self._operations += 1
        phase = self._operations % _ROWS
        if phase not in self._planes:
            negative = pool.rows[phase].bitwise_right_shift(self._run).bitwise_and_(1)
            self._planes[phase] = negative.to(torch.int16).neg_()
        signs = torch.empty(_PART, dtype=torch.int16)
        starts = (pool.starts_of(count), places(count, self._shared), places(count, self._sizes))
        for number, (row, flip, size) in enumerate(zip(*starts, strict=True)):
            here = slice(number * _PART, min((number + 1) * _PART, count))
            length = here.stop - here.start
            part = signs[:length].copy_(self._planes[phase][row : row + length])
            part.bitwise_xor_(pool.flips[flip : flip + length])
            yield here, part, pool.sizes[size : size + length]

    def sides(self, shape: torch.Size) -> torch.Tensor:
        """Plus and minus one, float64: the same in every run of a block."""
        return self._draw(shape.numel(), 2).reshape(shape).double().mul_(2).sub_(1)

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


@functools.cache
def _bytes() -> torch.Tensor:
    """The signs of seven rows in eight runs as bits, uint8: (matrix and first row, 7)."""
    negative = _matrices().lt(0).reshape(BLOCK, -1, 2, _ROWS)[:, :, 0]
    bits = (negative.long() << torch.arange(BLOCK).reshape(-1, 1, 1)).sum(0).to(torch.uint8)
    turned = [bits.roll(-first, -1) for first in range(_ROWS)]
    return torch.stack(turned, 1).flatten(0, 1)
