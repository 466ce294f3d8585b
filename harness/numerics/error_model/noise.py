"""Noise of the perturbed runs, with signs that are balanced over each eight runs.

The signs of one rounding error over eight runs are one of 35 rows, or its opposite: four are
positive and four negative. An element has another row for each of 35 consecutive operations, so
that no two of their errors cancel in all runs. The first seven rows are a Hadamard matrix, the
second seven another one. Any two rows of a matrix agree in four runs, so that two errors meet in
each of their four combinations of signs, and seven errors of a chain never cancel in all runs. The
order of rows of an element and all signs are random, so that errors that a sum or a broadcast
brings together are independent. After 35 operations the orders are drawn again. From then on the
signs of two errors are opposite in all runs in one element of 70. Their sizes, which vary by a
factor of four, keep these from cancelling.

With independent signs one rounding has the same sign in all of eight runs once in 128 elements, and
two cancel in all of them once in 256; with antithetic pairs two cancel once in 16.

Where an elementwise result is one number, such as a scaled ``torch.ones``, its elements round
alike, and so do the partial sums of a reduction over them. In six of eight runs they get one error:
two rows never have opposite signs in all of six runs.
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
"""Operations after which the order of an element's rows is drawn again."""

# Number of different orders of the rows.
_ORDERS = 512
# Rows of a Hadamard matrix without its constant row.
_ROWS = BLOCK - 1

# The noise of larger tensors is cut from a pool, in parts that fit into a cache.
_LARGE = 2**17
_PART = 2**17
# Number of offsets in the pool at which a part may begin.
_STARTS = 2**18
# Smallest and largest noise, in amplitudes: never zero, and its root mean square is 0.764.
_SMALLEST, _LARGEST = 0.3, 1.1475
# Sizes in the pool are integers; this one represents 1.
_ONE = 2**14


@dataclass
class NoisePool:
    """Random numbers from which the runs of a block cut the noise of large tensors.

    Each part of a tensor begins at a random offset of the pool. The offset of its orders stays the
    same for a cycle of operations; the offsets of its flips and sizes are drawn per operation.

    Attributes:
        orders: int32, the order of rows of each element.
        flips: int16, 0 or -1; -1 inverts all signs of an element.
        sizes: int16, in units of ``1 / _ONE``.
        rows: by operation of the cycle, the signs that the orders have there, uint8; bit r is set
            where the sign of run r is negative.
    """

    orders: torch.Tensor
    flips: torch.Tensor
    sizes: torch.Tensor
    rows: dict[int, torch.Tensor] = field(default_factory=dict)

    @staticmethod
    def from_seed(seed: int) -> NoisePool:
        """Draw a pool."""
        generator = torch.Generator().manual_seed(seed)

        def draw(low: int, high: int) -> torch.Tensor:
            drawn = torch.empty(_STARTS + _PART, dtype=torch.int16)
            return drawn.random_(low, high, generator=generator)

        return NoisePool(
            draw(0, _ORDERS).int(), draw(-1, 1), draw(int(_SMALLEST * _ONE), int(_LARGEST * _ONE))
        )

    def compute_sign_mask(self, phase: int, run: int) -> torch.Tensor:
        """Return the signs of a run at an operation of a cycle: int16, -1 if negative, else 0."""
        if phase not in self.rows:
            self.rows[phase] = _sign_bits()[phase].index_select(0, self.orders)
        bit = self.rows[phase].bitwise_right_shift(run).bitwise_and_(1)
        return bit.to(torch.int16).neg_()


def draw_offsets(count: int, generator: torch.Generator) -> list[int]:
    """Draw an offset into the pool for each part of ``count`` elements."""
    return torch.randint(_STARTS, (-(-count // _PART),), generator=generator).tolist()


NoisePools: TypeAlias = dict[int, NoisePool]
"""The pool of each block of runs that has a large tensor."""


class Noise:
    """Draws the perturbations of one run.

    Args:
        seed: seeds all runs.
        sample: number of this run.
        pools: shared by the runs; filled with the pool of a block when its first run needs it.
    """

    def __init__(self, seed: int, sample: int, pools: NoisePools | None = None) -> None:
        self._block, self._run = divmod(sample, BLOCK)
        self._signs = _signs_by_run()[self._run]
        self._sizes = torch.Generator().manual_seed(seed + sample)
        # Every run of a block draws the same orders and signs. Generators take the lower 32 bits of
        # a seed; Knuth's multiplier keeps them distinct from the seeds of the sizes.
        self._shared = torch.Generator().manual_seed(seed + 2654435761 * (self._block + 1))
        self._orders: dict[int, torch.Tensor] = {}
        self._starts: dict[int, list[int]] = {}
        self._pools = {} if pools is None else pools
        self._masks: dict[int, torch.Tensor] = {}
        self._operations = 0

    def draw_signs(self, shape: torch.Size, rows: Sequence[int] = ()) -> torch.Tensor:
        """Draw plus and minus one, float64.

        Args:
            shape: shape of the result.
            rows: rows of the first matrix to choose among; by default the next row of each
                element's order.
        """
        count = shape.numel()
        if count >= _LARGE and not rows:
            signs = torch.empty(count, dtype=torch.float64)
            for here, negative, _ in self._iterate_parts(count):
                signs[here].copy_(negative).mul_(2).add_(1)
            return signs.reshape(shape)
        opposite = self._draw_integers(count, 2)
        if rows:
            signs = _balanced_rows()[list(rows), self._run].double()
            signs = torch.cat([signs, -signs])
            chosen = self._draw_integers(count, len(rows)).add_(opposite.mul_(len(rows)))
            return signs[chosen].reshape(shape)
        phase = self._next_phase()
        if count not in self._orders:
            self._orders[count] = self._draw_integers(count, _ORDERS)
        chosen = self._orders[count].add(opposite, alpha=_ORDERS)
        return self._signs[phase].index_select(0, chosen).reshape(shape)

    def _next_phase(self) -> int:
        """Begin an operation; return its number within the cycle."""
        phase = self._operations % CYCLE
        if not phase:
            self._orders.clear()
            self._starts.clear()
        self._operations += 1
        return phase

    def draw_uniform(self, size: torch.Tensor, rows: Sequence[int] = ()) -> torch.Tensor:
        """Draw noise of about the given amplitudes, float64.

        No value is zero, so that every error takes part. Sizes differ enough that equal errors
        along a chain do not cancel.
        """
        if size.numel() >= _LARGE and not rows:
            large = torch.zeros_like(size)
            self.perturb(large, size)
            return large
        noise = torch.empty_like(size, dtype=torch.float64, memory_format=torch.contiguous_format)
        noise.uniform_(_SMALLEST, _LARGEST, generator=self._sizes)
        noise.mul_(self.draw_signs(size.shape, rows)).mul_(size)
        # Infinities stay: noise would turn them into NaN.
        return noise.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)

    def perturb(
        self,
        tensor: torch.Tensor,
        size: torch.Tensor | None = None,
        factor: float | torch.Tensor = 1.0,
    ) -> None:
        """Add noise of about ``size * factor`` to a float64 tensor in place.

        Args:
            tensor: the tensor to perturb.
            size: broadcasts with the tensor; None for the tensor's own absolute values.
            factor: broadcasts with the size.
        """
        if size is None and self._run % 4 and _is_one_number(tensor):
            # Draw as many numbers as the other runs, whose signs would differ from then on.
            common = self.draw_uniform(torch.ones_like(tensor)).flatten()[0]
            tensor.add_(tensor.abs() * factor * common)
            return
        values = tensor if tensor.numel() < _LARGE else tensor.permute(tensor.dim_order())
        if tensor.numel() < _LARGE or not values.is_contiguous():
            size = tensor.abs().mul_(factor) if size is None else size * factor
            tensor.add_(
                self.draw_uniform(size if size.shape == tensor.shape else size.expand_as(tensor))
            )
            return
        if isinstance(factor, torch.Tensor):
            size, factor = (tensor if size is None else size) * factor, 1.0
        sizes = values if size is None else size.expand_as(tensor).permute(tensor.dim_order())
        self._perturb_parts(values.view(-1), sizes.reshape(-1), factor / _ONE)

    def perturb_copy(self, tensor: torch.Tensor, factor: float) -> torch.Tensor:
        """Return a copy with noise of about ``|tensor| * factor``."""
        copy = tensor.clone()
        self.perturb(copy, factor=factor)
        return copy

    def _perturb_parts(self, values: torch.Tensor, sizes: torch.Tensor, factor: float) -> None:
        """Perturb a flat tensor in parts. Signs of the sizes do not matter."""
        noise, wide = (torch.empty(_PART, dtype=torch.float64) for _ in range(2))
        for here, negative, size in self._iterate_parts(len(values)):
            part = noise[: len(size)].copy_(negative.bitwise_xor_(size))
            amplitude = sizes[here]
            if amplitude.dtype != torch.float64:
                amplitude = wide[: len(size)].copy_(amplitude)
            if not math.isfinite(float(amplitude.sum())):
                amplitude = amplitude.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
            values[here].addcmul_(part, amplitude, value=factor)

    def _iterate_parts(self, count: int) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor]]:
        """Yield parts of a tensor of ``count`` elements, each with its noise, int16.

        Yields:
            The slice of the part; its signs, 0 for positive and -1 for negative, which the caller
            may overwrite; its sizes in units of ``1 / _ONE``.
        """
        if self._block not in self._pools:
            self._pools[self._block] = NoisePool.from_seed(self._shared.initial_seed() + 1)
        pool = self._pools[self._block]
        phase = self._next_phase()
        if phase not in self._masks:
            self._masks[phase] = pool.compute_sign_mask(phase, self._run)
        if count not in self._starts:
            self._starts[count] = draw_offsets(count, self._shared)
        signs = torch.empty(_PART, dtype=torch.int16)
        starts = (
            self._starts[count],
            draw_offsets(count, self._shared),
            draw_offsets(count, self._sizes),
        )
        for number, (row, flip, size) in enumerate(zip(*starts, strict=True)):
            here = slice(number * _PART, min((number + 1) * _PART, count))
            length = here.stop - here.start
            part = signs[:length].copy_(self._masks[phase][row : row + length])
            part.bitwise_xor_(pool.flips[flip : flip + length])
            yield here, part, pool.sizes[size : size + length]

    def draw_block_signs(self, shape: torch.Size) -> torch.Tensor:
        """Draw plus and minus one, float64, the same in every run of a block."""
        return self._draw_integers(shape.numel(), 2).reshape(shape).double().mul_(2).sub_(1)

    def draw_permutation(self, length: int) -> torch.Tensor:
        """Draw a permutation of ``length`` elements, int64."""
        return torch.randperm(length, generator=self._sizes)

    def _draw_integers(self, count: int, below: int) -> torch.Tensor:
        drawn = torch.empty(count, dtype=torch.int32)
        return drawn.random_(below, generator=self._shared)


def _is_one_number(tensor: torch.Tensor) -> bool:
    """Whether all of several elements are the same finite number, and not 0."""
    if tensor.numel() < 2:
        return False
    first, last = (float(tensor[(at,) * tensor.dim()]) for at in (0, -1))
    return first == last != 0 and math.isfinite(first) and bool((tensor == first).all())


@functools.cache
def _balanced_rows() -> torch.Tensor:
    """Return the 35 ways to give four of eight runs the opposite sign: int8, (row, run).

    First Sylvester's matrix of order 8 without its constant row, then a permutation of its runs
    that shares no row with it. The 21 remaining rows come in triples: the rows of a triple agree
    in four runs with the same three rows of the second matrix.
    """
    first = [tuple((row & run).bit_count() % 2 for run in range(BLOCK)) for row in range(1, BLOCK)]
    orders = itertools.permutations(range(1, BLOCK))
    moved = ([(0, *(row[run] for run in order)) for row in first] for order in orders)
    second = next(rows for rows in moved if not set(rows) & set(first))
    every = itertools.product((0, 1), repeat=_ROWS)
    others = {(0, *row) for row in every if sum(row) == BLOCK // 2} - {*first, *second}

    def find_agreeing(row: tuple[int, ...]) -> list[int]:
        return [at for at, one in enumerate(second) if sum(map(int.__eq__, row, one)) == BLOCK // 2]

    rows = [*first, *second, *sorted(others, key=find_agreeing)]
    return 1 - 2 * torch.tensor(rows, dtype=torch.int8)


@functools.cache
def _sign_orders() -> torch.Tensor:
    """Return random orders of the rows: int8, (run, operation of the cycle, order).

    Runs are permuted, and so are the rows of a matrix, the rows of a triple, and the triples.
    """
    generator = torch.Generator().manual_seed(0)

    def draw_permutations(*shape: int) -> torch.Tensor:
        return torch.rand(_ORDERS, *shape, generator=generator).argsort(-1)

    triples = draw_permutations(_ROWS).unsqueeze(-1) * 3 + draw_permutations(_ROWS, 3)
    matrices = [draw_permutations(_ROWS), _ROWS + draw_permutations(_ROWS)]
    order = torch.cat([*matrices, 2 * _ROWS + triples.flatten(1)], 1)
    runs = draw_permutations(BLOCK).unsqueeze(1).expand(-1, CYCLE, -1)
    return _balanced_rows()[order].gather(-1, runs).permute(2, 1, 0).contiguous()


@functools.cache
def _signs_by_run() -> list[tuple[torch.Tensor, ...]]:
    """Return the signs of the orders and their opposites, by run and operation: float64 (order)."""
    drawn = _sign_orders().double()
    return [run.unbind() for run in torch.cat([drawn, -drawn], -1)]


@functools.cache
def _sign_bits() -> torch.Tensor:
    """Return the signs of each order in eight runs as bits, uint8: (operation, order)."""
    weights = 2 ** torch.arange(BLOCK, dtype=torch.int64).reshape(-1, 1, 1)
    return (_sign_orders().lt(0) * weights).sum(0).to(torch.uint8)
