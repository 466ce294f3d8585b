"""The dispatch mode that errs in float64 as a target's arithmetic does.

docs/numerics.md derives the amplitudes; :mod:`harness.numerics.bounds` makes bounds of the runs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from harness.model.precision import Precision
from harness.model.trees import leaves, map_leaves
from harness.numerics.arithmetic import Float64Mode, Trace
from harness.numerics.dtypes import roundoff
from harness.numerics.error_model.constants import COMPARISONS, rounded
from harness.numerics.error_model.exact_results import is_held
from harness.numerics.error_model.interpolation import interpolate
from harness.numerics.error_model.magnitudes import Reduction, is_inexact, reduction
from harness.numerics.error_model.noise import Noise
from harness.numerics.error_model.ranges import Range, domain, halfway, usual
from harness.numerics.error_model.rounding import RoundingKind, base_name
from harness.numerics.formats.block_scaled import BlockProduct
from harness.numerics.formats.dequantize import Blocks
from harness.numerics.formats.semantics import GENERIC, Semantics
from harness.numerics.kernels.products import compute
from harness.numerics.large_tensors import attention
from harness.numerics.large_tensors.attention import Attention, Errors
from harness.numerics.large_tensors.shared_sums import Settled, Sum, is_large

_FLOAT32_UNIT = 2.0**-24


class PerturbedMode(Float64Mode):  # type: ignore[no-untyped-call]
    """Float64 with every result perturbed by the amplitude of the target's rounding there.

    Signs are balanced over the runs (:mod:`harness.numerics.error_model.noise`). In every second
    run, numbers that are out of the dtype's range become infinite or zero inside of what is made of
    several operations.

    Args:
        precision: the rounding model of the target.
        seed: seeds the noise.
        sample: number of this run.
        exact: what the run without noise met; without it, every element that is encoded to blocks
            may be a step off, and what jumps does where this run's own noise makes it.
        semantics: what operators mean that are no arithmetic of tensors.
    """

    perturbs = True

    def __init__(
        self,
        precision: Precision,
        seed: int,
        sample: int,
        exact: Trace | None = None,
        semantics: Semantics = GENERIC,
    ) -> None:
        super().__init__(semantics)
        self._exact = exact or Trace()
        self.shared = self._exact.sums
        self.precision = precision
        self.noise = Noise(seed, sample, self._exact.patterns)
        self._sample = sample
        self._wide = False
        self._largest_unit = math.inf
        self._exact_terms = 1
        self._domains = 0
        self._sums = 0
        self._jumped = False
        self._stepped = False
        # Made of nothing that the program is given: positions, above all.
        self._counted = Settled()

    @property
    def running_means(self) -> bool:
        """Whether the deviations of a variance err one by one."""
        return self.precision.running_means

    @property
    def unit(self) -> float:
        """Unit roundoff of the current operator: that of the dtype it computes in."""
        return min(roundoff(self.dtype), self._largest_unit)

    def round_numbers(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments with numbers that err, in all elements alike; those that something is compared
        with are rounded in every second run."""

        def draw(number: float, held: float) -> float:
            if name in COMPARISONS:
                return held if self._sample % 2 else number
            off = torch.tensor(abs(held - number), dtype=torch.float64)
            return number + float(self.noise.uniform(off))

        return rounded(name, args, kwargs, self.dtype.to_real(), draw)

    def operate(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one primitive operation and perturb what it rounds."""
        kind = self.kind(name, args, kwargs)
        if kind is RoundingKind.EXACT:
            args = self._round_to_result(args)
        if kind is RoundingKind.FUNCTION:
            args = self.perturb_arguments(func, name, args)
        # Before the operation, which may write to its arguments.
        sums = bias = known = None
        settled = self.settled.hold((args, kwargs))
        if kind is RoundingKind.REDUCTION:
            wide = self._sums_wide(name)
            unit = min(self.unit, _FLOAT32_UNIT) if wide else self.unit
            known = self._known(func, args) if is_large(func, args) else None
            sums = known.reduction if known is not None else None
            if sums is None:
                sums = reduction(func, name, args, kwargs, unit, coarse=known is not None)
            if known is not None and known.reduction is None:
                self._exact.sums.keep(known, sums)
            bias = _bias(name, args, kwargs) if wide else None
        out = known.result() if known is not None and settled else None
        call = None if known is None or settled else self.linear(func, name, args, kwargs)
        if known is not None and call is not None:
            out = self._exact.sums.beside(known, call)
        if out is None:
            out = compute(func, name, args, kwargs)
        exact = kind is RoundingKind.EXACT
        if settled:
            counted = self._counted.hold((args, kwargs))
            # What is inside of a compound operation, targets may compute by another formula.
            held = counted and not self.depth and is_held(name, args, out, self.unit)
            exact = exact or held
            if exact:
                self.settled.add(out)
            if exact and counted:
                self._counted.add(out)
        if exact:
            return out
        inexact = [item for item in leaves(out) if is_inexact(item)]
        for index, tensor in enumerate(inexact):
            size, factor = None, self._roundings(kind, name)
            if sums is not None:
                size, factor = self._sum_error(name, sums, index, tensor, bias)
            # In place, so that an operation that writes to its argument is perturbed there.
            if tensor.is_complex():
                size = ((tensor.abs() if size is None else size) * factor).unsqueeze(-1)
                self.noise.disturb(torch.view_as_real(tensor), size)
            else:
                self.noise.disturb(tensor, size, factor)
        if func._schema.is_mutable:
            return out
        return self.leave_range(name, out, args, kwargs)

    def interpolate(self, func: Any, name: str, args: tuple[Any, ...]) -> torch.Tensor:
        """Read at coordinates that err, with weights that err likewise, and round the sums."""
        read = interpolate(func, name, args, self.noise.uniform, self.precision.safety, self.unit)
        if read.magnitude is None:
            return read.values
        sums = Reduction(16, [read.magnitude], None)
        size, factor = self._sum_error(name, sums, 0, read.values, None)
        values = read.values.clone()
        self.noise.disturb(values, size, factor)
        return values

    def leave_range(
        self, name: str, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A result as its usual formula has it where an intermediate leaves the dtype's range; and
        within a compound operation, as the dtype holds the result."""
        if self._sample % 2 == 0:
            return result
        keep = Range()
        keep.narrow(torch.float32 if self._sums_wide(name) else self.dtype)
        first = result[0] if isinstance(result, tuple) else result
        if not is_inexact(first) or first.is_complex():
            return result
        held = keep(first) if self.depth else usual(name, keep, first, args, kwargs)
        return (held, *result[1:]) if isinstance(result, tuple) else held

    def attend(self, call: Attention) -> torch.Tensor:
        """Attention with many scores: its operations err as in its decomposition."""
        wide = self._sums_wide(attention.NAME)
        unit = min(self.unit, _FLOAT32_UNIT) if wide else self.unit
        depth, keys = call.query.shape[-1], call.key.shape[2]
        # Query and key are scaled by a root each. A mask is added to the rounded sum.
        query, key = (self.noise.disturbed(item, self.unit) for item in (call.query, call.key))
        score = self.unit * (wide + (call.is_causal or call.mask is not None))
        exponential = 2 * self.unit * self.precision.ulps("exp")
        quotient = self.unit * self.precision.division_roundings
        argument = self.unit * (1 + self.precision.argument_roundings)

        def of_key(amplitude: Any) -> torch.Tensor:
            size = torch.as_tensor(amplitude, dtype=torch.float64)
            return self.noise.uniform(size.expand(key.shape[:3]))

        errors = Errors(
            side=self.noise.sides(query.shape[:3]).unsqueeze(-1),
            norm=query.norm(dim=-1, keepdim=True).mul_(abs(call.scale)),
            a=of_key(key.norm(dim=-1) * (Reduction(depth, None, None).roundings() * unit)),
            b=of_key(score),
            c=of_key(exponential + quotient),
            d=of_key(score + argument),
        )
        known = self._known(attention.NAME, (call.query, call.key, call.value))
        exact = None if known is None else known.found
        if exact is None:
            exact = attention.evaluate(call)
        out = attention.evaluate_with(errors, replace(call, query=query, key=key), exact.most)
        sums = Reduction(keys, [exact.magnitude], None)
        # The sum of a row's weights, by which it is divided; a wide one is rounded.
        rounding = float(sums.roundings()) * unit + wide * self.unit
        total = torch.full((*query.shape[:3], 1), rounding, dtype=torch.float64)
        out += out * self.noise.uniform(total)
        size, factor = self._sum_error(attention.NAME, sums, 0, out, None)
        self.noise.disturb(out, size, factor)
        return out

    def jump(self, function: Callable[..., torch.Tensor], *arguments: Any) -> torch.Tensor:
        """``function`` of arguments that err as much as a bound would let them.

        What has jumped or was requantized is off by more than noise, and would be taken too far by
        the next jump.
        """
        number = len(self.trace.jumps)
        super().jump(function, *arguments)
        if number >= len(self._exact.jumps):
            return function(*arguments)
        exact, expected = self._exact.jumps[number]
        counted = self._counted.hold(arguments)
        if not (self._jumped or self._stepped):
            arguments = tuple(map(self._extrapolate, exact, arguments))
        result = function(*arguments)
        self._jumped = self._jumped or not _same(result, expected)
        if counted and function in (torch.floor, torch.trunc):
            self.settled.add(result)
            self._counted.add(result)
        return result

    def _extrapolate(self, exact: Any, erring: Any) -> Any:
        if not isinstance(erring, torch.Tensor) or not erring.is_floating_point():
            return erring
        if exact.shape != erring.shape:
            return erring
        off = (erring - exact) * self.precision.safety
        return torch.where(off.isfinite(), exact + off, erring)

    def order(self, length: int) -> torch.Tensor | None:
        """As they are, the other way round, and at random."""
        if self._sample == 0:
            return None
        if self._sample == 1:
            return torch.arange(length - 1, -1, -1)
        return self.noise.permutation(length)

    def confine(self, x: torch.Tensor, interval: tuple[float, float]) -> torch.Tensor:
        """An argument that only noise moved out of a domain, at its end."""
        number = self._domains
        self._domains += 1
        if number >= len(self._exact.within):
            return x
        within = self._exact.within[number]
        confined = x.clamp(*interval)
        if within is None or within.shape != x.shape:
            return confined if within is None else x
        return torch.where(within, confined, x)

    def quantize(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
        """Quantize, and err by a step as a requantization may."""
        out = super().quantize(func, args, kwargs)
        name = base_name(func)
        is_affine = name == "quantize_affine"  # its scale is a tensor, whether known or measured
        known = self.settled.hold(args[2]) if is_affine else not isinstance(args[1], torch.Tensor)
        if known and any(args[0] is x for x in self.inputs):
            return out  # the program quantizes its input with the same operator and scale
        low, high = _limits(name, args)
        return (out.double() + self._steps(out.shape)).clamp_(low, high).round_().to(out.dtype)

    def dequantize(self, blocks: Blocks) -> torch.Tensor:
        """Decode, and err in each block's scale and offset and in each result."""
        if blocks.offset is not None:
            rounding = self.precision.block_roundings * self.unit
            scale, offset = (
                self.noise.disturbed(part, rounding) for part in (blocks.scale, blocks.offset)
            )
            blocks = replace(blocks, scale=scale, offset=offset)
        values = blocks.values()
        self.noise.disturb(values, factor=self.unit)
        return values

    def encode(self, product: BlockProduct) -> torch.Tensor:
        """Encode, and err by a step where the activation may be encoded otherwise."""
        number, given = len(self.trace.encoded), product.activation
        self.trace.encoded.append(given)
        encoded = product.encode(given)
        known = number < len(self._exact.encoded)
        off = (
            (given - self._exact.encoded[number]).abs()
            if known
            else torch.full_like(given, math.inf)
        )
        values = encoded.values()
        if not (off > 0).any():
            return values  # an input, or what moves, selects and compares made of it
        # An error as large as the bound itself would allow, twice.
        unsettled = product.unsettled(off.mul_(2 * self.precision.safety))
        # A step from where it is without noise: noise that crosses a tie is that step already.
        settled = product.encode(self._exact.encoded[number]) if known else encoded
        steps = self._steps(values.shape).mul_(settled.steps())
        return torch.where(unsettled, settled.values() + steps, values)

    def _round_to_result(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Arguments as an operator takes them that rounds nothing itself: a tensor without
        dimensions does not promote the others, and is rounded to their dtype."""

        def narrowed(item: Any) -> Any:
            if not isinstance(item, torch.Tensor) or item.dim() or not item.is_floating_point():
                return item
            finer = roundoff(self.dtypes.of(item)) < roundoff(self.dtype)
            return self.noise.disturbed(item, self.unit) if finer else item

        return args if self.depth else tuple(map(narrowed, args))

    def _steps(self, shape: torch.Size) -> torch.Tensor:
        """Errors of a requantization, in its steps. Sums stay comparable behind them: their error
        is relative to a magnitude that a step moves little, and is small beside it."""
        self._stepped = True
        return self.noise.signs(shape) * self.precision.step

    def _known(self, operator: Any, args: tuple[Any, ...]) -> Sum | None:
        """What is known of a large sum from the runs before; of what has jumped, nothing."""
        number, self._sums = self._sums, self._sums + 1
        return None if self._jumped else self._exact.sums.at(number, operator, args)

    def _roundings(self, kind: RoundingKind, name: str) -> float:
        """The amplitude of what is no sum, relative to the result."""
        if kind is RoundingKind.FUNCTION:
            return 2 * self.unit * self.precision.ulps(name)
        if kind is RoundingKind.DIVISION:
            return self.unit * self.precision.division_roundings
        return self.unit

    def _sums_wide(self, name: str) -> bool:
        return self._wide or self.precision.sums_wide(name)

    def _sum_error(
        self,
        name: str,
        sums: Reduction,
        index: int,
        values: torch.Tensor,
        bias: torch.Tensor | None,
    ) -> tuple[torch.Tensor, Any]:
        """Amplitude of a reduction's output, which has these values: a tensor and a factor."""
        magnitude = values.abs() if sums.magnitudes is None else sums.magnitudes[index]
        roundings = sums.roundings(self._exact_terms)
        if not self._sums_wide(name):
            return magnitude, roundings * self.unit
        # A bias may be added to the rounded sum, which is no larger than both.
        rounded = values.abs() if bias is None else values.abs() + bias.abs()
        return magnitude * (roundings * min(self.unit, _FLOAT32_UNIT)) + rounded * self.unit, 1.0

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """While a compound operation runs as its parts: do its sums accumulate in float32?"""
        outer, self._wide = self._wide, self._wide or self.precision.sums_wide(name)
        try:
            with super().inside(name):
                yield
        finally:
            self._wide = outer

    @contextmanager
    def in_float32(self, exact_terms: int) -> Iterator[None]:
        """While an operation runs in float32, whatever the program's dtype, and rounds its sums
        once in so many terms."""
        self._largest_unit, self._exact_terms = _FLOAT32_UNIT, exact_terms
        try:
            yield
        finally:
            self._largest_unit, self._exact_terms = math.inf, 1

    def perturb_arguments(self, func: Any, name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """A backward error of each argument: what range reduction and composition cost. It does not
        take an argument out of the function's domain."""
        rounding = self.precision.argument_roundings * self.unit
        interval = domain(name, args)

        def perturbed(item: Any, written: bool) -> Any:
            if not is_inexact(item) or item.is_complex():
                return item
            moved = self.noise.disturbed(item, rounding)
            if interval is not None:
                moved = halfway(item, moved, interval)
            # The result goes to this very tensor, and the caller reads it there.
            return item.copy_(moved) if written else moved

        writes = [
            argument.alias_info is not None and argument.alias_info.is_write
            for argument in func._schema.arguments
        ]
        return tuple(
            map_leaves(functools.partial(perturbed, written=written), item)
            for item, written in zip(args, writes, strict=False)
        )


def _bias(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
    """What is added to a sum of products, broadcasting with the result."""
    if name in ("addmm", "baddbmm", "addbmm", "addmv"):
        added: torch.Tensor = args[0] * kwargs.get("beta", 1)
        return added
    bias: torch.Tensor | None = args[2] if name in ("linear", "convolution") and args[2:] else None
    if bias is None or name == "linear":
        return bias
    return bias.reshape(-1, *[1] * (args[1].dim() - 2))


def _same(result: torch.Tensor, expected: torch.Tensor) -> bool:
    if result.shape != expected.shape:
        return False
    return bool(((result == expected) | ((result != result) & (expected != expected))).all())


def _limits(name: str, args: tuple[Any, ...]) -> tuple[int, int]:
    """The lowest and highest code of a quantization."""
    if name == "quantize_affine":
        known = torch.iinfo(args[4])
        low, high = (*args[5:7], None, None)[:2]
        return int(known.min if low is None else low), int(known.max if high is None else high)
    at = 4 if "per_channel" in name else 3
    return int(args[at]), int(args[at + 1])
