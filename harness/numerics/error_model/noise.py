"""Noise of the perturbed runs, with signs that are balanced over each eight of them.

The signs of one rounding error over eight runs are one of 35 rows, or its opposite: four are
positive and four negative. An element has another row for each of 35 operations that follow each
other, so that no two errors of them cancel in all runs. The first seven are those of a Hadamard
matrix, the second seven those of another: any two of a matrix agree in four runs, so that two
errors meet in each of their four combinations of signs, and seven of a chain never cancel in all
runs. Which order of rows an element has and all signs are random, so that errors that a sum or a
broadcast brings together are independent. After 35 operations orders are drawn anew: the signs of
an error before and of one after are opposite in all runs in one element of 70, and what keeps those
from cancelling are their sizes, which vary by a factor of four.

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

CYCLE = 35
"""Operations after which an element's rows are drawn anew."""

# Orders of the rows that an element has one of.
_ORDERS = 512
# Rows of a Hadamard matrix but the one of a single sign.
_ROWS = BLOCK - 1

# The noise of larger tensors is cut from a pool, in parts of so many elements: what a cache holds.
_LARGE = 2**17
_PART = 2**17
# Where in the pool a part may begin.
_STARTS = 2**18
# Sizes of noise, in amplitudes: no error is left out, and its root mean square is 0.764.
_LEAST, _MOST = 0.3, 1.1475
# Sizes in the pool are integers; this is 1.
_ONE = 2**14


@dataclass
class Pool:
    """Random numbers that the runs of a block cut the noise of large tensors from.

    Each part of a tensor begins at a random place of the pool. That of its orders is the same for a
    cycle of operations; those of its flips and of its sizes are drawn for each.

    Attributes:
        orders: int32: the order of rows of each element.
        flips: int16, 0 or -1: all signs are the opposite.
        sizes: int16, in units of ``1 / _ONE``.
        rows: by operation of the cycle, the signs that the orders have there, uint8; bit r is set
            where that of run r is negative.
    """

    orders: torch.Tensor
    flips: torch.Tensor
    sizes: torch.Tensor
    rows: dict[int, torch.Tensor] = field(default_factory=dict)

    @staticmethod
    def filled(seed: int) -> Pool:
        """Draw one."""
        generator = torch.Generator().manual_seed(seed)

        def draw(low: int, high: int) -> torch.Tensor:
            drawn = torch.empty(_STARTS + _PART, dtype=torch.int16)
            return drawn.random_(low, high, generator=generator)

        return Pool(
            draw(0, _ORDERS).int(), draw(-1, 1), draw(int(_LEAST * _ONE), int(_MOST * _ONE))
        )

    def negative(self, phase: int, run: int) -> torch.Tensor:
        """Where the signs of a run are negative at an operation of the cycle: int16, 0 or -1."""
        if phase not in self.rows:
            self.rows[phase] = _bits()[phase].index_select(0, self.orders)
        bit = self.rows[phase].bitwise_right_shift(run).bitwise_and_(1)
        return bit.to(torch.int16).neg_()


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
        self._signs = _signs()[self._run]
        self._sizes = torch.Generator().manual_seed(seed + sample)
        # Every run of a block draws the same orders and signs. Generators take the lower 32 bits of
        # a seed; Knuth's multiplier keeps it away from those of the sizes.
        self._shared = torch.Generator().manual_seed(seed + 2654435761 * (self._block + 1))
        self._orders: dict[int, torch.Tensor] = {}
        self._starts: dict[int, list[int]] = {}
        self._patterns = {} if patterns is None else patterns
        self._planes: dict[int, torch.Tensor] = {}
        self._operations = 0

    def signs(self, shape: torch.Size, rows: Sequence[int] = ()) -> torch.Tensor:
        """Plus and minus one, float64.

        Args:
            shape: of the result.
            rows: of the first matrix, to choose among; by default the next of each element's order.
        """
        count = shape.numel()
        if count >= _LARGE and not rows:
            signs = torch.empty(count, dtype=torch.float64)
            for here, negative, _ in self._cut(count):
                signs[here].copy_(negative).mul_(2).add_(1)
            return signs.reshape(shape)
        opposite = self._draw(count, 2)
        if rows:
            signs = _rows()[list(rows), self._run].double()
            signs = torch.cat([signs, -signs])
            chosen = self._draw(count, len(rows)).add_(opposite.mul_(len(rows)))
            return signs[chosen].reshape(shape)
        phase = self._next()
        if count not in self._orders:
            self._orders[count] = self._draw(count, _ORDERS)
        chosen = self._orders[count].add(opposite, alpha=_ORDERS)
        return self._signs[phase].index_select(0, chosen).reshape(shape)

    def _next(self) -> int:
        """Which operation of a cycle begins."""
        phase = self._operations % CYCLE
        if not phase:
            self._orders.clear()
            self._starts.clear()
        self._operations += 1
        return phase

    def uniform(self, size: torch.Tensor, rows: Sequence[int] = ()) -> torch.Tensor:
        """Noise of about that size, float64: never nothing, so that no error is left out, and of
        sizes so different that equal errors along a chain do not cancel."""
        if size.numel() >= _LARGE and not rows:
            large = torch.zeros_like(size)
            self.disturb(large, size)
            return large
        noise = torch.empty_like(size, dtype=torch.float64, memory_format=torch.contiguous_format)
        noise.uniform_(_LEAST, _MOST, generator=self._sizes)
        noise.mul_(self.signs(size.shape, rows)).mul_(size)
        # An infinity has no neighbourhood: perturbing it would make NaN.
        return noise.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)

    def disturb(
        self,
        tensor: torch.Tensor,
        size: torch.Tensor | None = None,
        factor: float | torch.Tensor = 1.0,
    ) -> None:
        """Add noise of about ``size * factor`` to a float64 tensor in place.

        Args:
            tensor: what is added to.
            size: broadcasts with the tensor; None for the tensor's own absolute values.
            factor: broadcasts with the size.
        """
        values = tensor if tensor.numel() < _LARGE else tensor.permute(tensor.dim_order())
        if tensor.numel() < _LARGE or not values.is_contiguous():
            size = tensor.abs().mul_(factor) if size is None else size * factor
            tensor.add_(
                self.uniform(size if size.shape == tensor.shape else size.expand_as(tensor))
            )
            return
        if isinstance(factor, torch.Tensor):
            size, factor = (tensor if size is None else size) * factor, 1.0
        sizes = values if size is None else size.expand_as(tensor).permute(tensor.dim_order())
        self._disturb(values.view(-1), sizes.reshape(-1), factor / _ONE)

    def disturbed(self, tensor: torch.Tensor, factor: float) -> torch.Tensor:
        """A copy with noise of about ``|tensor| * factor``."""
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
        phase = self._next()
        if phase not in self._planes:
            self._planes[phase] = pool.negative(phase, self._run)
        if count not in self._starts:
            self._starts[count] = places(count, self._shared)
        signs = torch.empty(_PART, dtype=torch.int16)
        starts = (self._starts[count], places(count, self._shared), places(count, self._sizes))
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
def _rows() -> torch.Tensor:
    """The 35 ways to give four of eight runs the opposite sign of the others: int8, (row, run).

    First Sylvester's matrix of order 8, without the row of one sign; then what becomes of it when
    runs change places, without a row in common with it. The 21 others come in threes that agree in
    four runs: those that do so with the same three of the second matrix.
    """
    first = [tuple((row & run).bit_count() % 2 for run in range(BLOCK)) for row in range(1, BLOCK)]
    orders = itertools.permutations(range(1, BLOCK))
    moved = ([(0, *(row[run] for run in order)) for row in first] for order in orders)
    second = next(rows for rows in moved if not set(rows) & set(first))
    every = itertools.product((0, 1), repeat=_ROWS)
    others = {(0, *row) for row in every if sum(row) == BLOCK // 2} - {*first, *second}

    def agreeing(row: tuple[int, ...]) -> list[int]:
        return [at for at, one in enumerate(second) if sum(map(int.__eq__, row, one)) == BLOCK // 2]

    rows = [*first, *second, *sorted(others, key=agreeing)]
    return 1 - 2 * torch.tensor(rows, dtype=torch.int8)


@functools.cache
def _drawn() -> torch.Tensor:
    """Orders of rows: int8, (run, operation of the cycle, order).

    Runs change places, and so do the rows of a matrix, those of a three, and the threes.
    """
    generator = torch.Generator().manual_seed(0)

    def shuffled(*shape: int) -> torch.Tensor:
        return torch.rand(_ORDERS, *shape, generator=generator).argsort(-1)

    threes = shuffled(_ROWS).unsqueeze(-1) * 3 + shuffled(_ROWS, 3)
    order = torch.cat([shuffled(_ROWS), _ROWS + shuffled(_ROWS), 2 * _ROWS + threes.flatten(1)], 1)
    runs = shuffled(BLOCK).unsqueeze(1).expand(-1, CYCLE, -1)
    return _rows()[order].gather(-1, runs).permute(2, 1, 0).contiguous()


@functools.cache
def _signs() -> list[tuple[torch.Tensor, ...]]:
    """The signs of each order, and then their opposites: by run and operation, float64 (order)."""
    drawn = _drawn().double()
    return [run.unbind() for run in torch.cat([drawn, -drawn], -1)]


@functools.cache
def _bits() -> torch.Tensor:
    """The signs of each order in eight runs as bits, uint8: (operation, order)."""
    weights = 2 ** torch.arange(BLOCK, dtype=torch.int64).reshape(-1, 1, 1)
    return (_drawn().lt(0) * weights).sum(0).to(torch.uint8)
