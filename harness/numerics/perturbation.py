"""Perturb a float64 run as a target's arithmetic would (Monte Carlo arithmetic).

docs/numerics.md derives the amplitudes; :mod:`harness.numerics.bounds` computes bounds from the
runs.
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
from harness.numerics.arithmetic import Float64Mode, RunRecord
from harness.numerics.dtypes import unit_roundoff
from harness.numerics.error_model.constants import COMPARISONS, round_constants
from harness.numerics.error_model.exact_results import is_exact_result
from harness.numerics.error_model.interpolation import interpolate
from harness.numerics.error_model.magnitudes import Reduction, analyze_reduction, is_inexact
from harness.numerics.error_model.noise import Noise
from harness.numerics.error_model.ranges import (
    DtypeRange,
    apply_usual_formula,
    clamp_halfway,
    find_domain,
)
from harness.numerics.error_model.rounding import RoundingKind, base_name
from harness.numerics.formats.block_scaled import MxProduct
from harness.numerics.formats.dequantize import BlockQuantizedTensor
from harness.numerics.formats.semantics import GENERIC_SEMANTICS, OperatorSemantics
from harness.numerics.kernels.products import compute
from harness.numerics.large_tensors import attention
from harness.numerics.large_tensors.attention import AttentionCall, WeightErrors
from harness.numerics.large_tensors.shared_sums import InvariantTensors, SharedSum, is_large

_FLOAT32_UNIT = 2.0**-24


class PerturbedMode(Float64Mode):  # type: ignore[no-untyped-call]
    """Runs in float64 and perturbs every result by the amplitude of the target's rounding.

    Signs are balanced over the runs (:mod:`harness.numerics.error_model.noise`). In every second
    run, intermediates of compound operations that are out of the dtype's range become infinite or
    zero.

    Args:
        precision: the rounding model of the target.
        seed: seeds the noise.
        sample: number of this run.
        exact: the record of the unperturbed run. Without it, every element that is encoded to
            blocks may be off by a step, and discontinuities see only this run's noise.
        semantics: meaning of operators that are not plain tensor arithmetic.
    """

    is_perturbed = True

    def __init__(
        self,
        precision: Precision,
        seed: int,
        sample: int,
        exact: RunRecord | None = None,
        semantics: OperatorSemantics = GENERIC_SEMANTICS,
    ) -> None:
        super().__init__(semantics)
        self._exact = exact or RunRecord()
        self.shared = self._exact.sums
        self.precision = precision
        self.noise = Noise(seed, sample, self._exact.noise_pools)
        self._sample = sample
        self._is_wide = False
        self._largest_unit = math.inf
        self._exact_terms = 1
        self._domains = 0
        self._sums = 0
        self._has_jumped = False
        self._has_requantized = False
        # Computed from constants only, such as positions, and from no input or weight.
        self._constants = InvariantTensors()

    @property
    def running_means(self) -> bool:
        """Whether each deviation of a variance errs on its own."""
        return self.precision.running_means

    @property
    def unit(self) -> float:
        """Unit roundoff of the dtype that the current operator computes in."""
        return min(unit_roundoff(self.dtype), self._largest_unit)

    def round_constants(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Perturb constants, in all elements alike. Constants of comparisons are rounded in every
        second run."""

        def draw(number: float, nearest: float) -> float:
            if name in COMPARISONS:
                return nearest if self._sample % 2 else number
            off = torch.tensor(abs(nearest - number), dtype=torch.float64)
            return number + float(self.noise.draw_uniform(off))

        return round_constants(name, args, kwargs, self.dtype.to_real(), draw)

    def run_primitive(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run one primitive operation and perturb its result by its rounding error."""
        kind = self.get_rounding_kind(name, args, kwargs)
        if kind is RoundingKind.EXACT:
            args = self._round_to_result(args)
        if kind is RoundingKind.FUNCTION:
            args = self.perturb_arguments(func, name, args)
        # Before the operation, which may write to its arguments.
        sums = bias = known = None
        is_invariant = self.invariant.contains((args, kwargs))
        if kind is RoundingKind.REDUCTION:
            is_wide = self._accumulates_wide(name)
            unit = min(self.unit, _FLOAT32_UNIT) if is_wide else self.unit
            known = self._find_shared_sum(func, args) if is_large(func, args) else None
            sums = known.reduction if known is not None else None
            if sums is None:
                sums = analyze_reduction(func, name, args, kwargs, unit, coarse=known is not None)
            if known is not None and known.reduction is None:
                self._exact.sums.store_reduction(known, sums)
            bias = _find_bias(name, args, kwargs) if is_wide else None
        out = known.copy_result() if known is not None and is_invariant else None
        call = (
            None
            if known is None or is_invariant
            else self.find_linear_call(func, name, args, kwargs)
        )
        if known is not None and call is not None:
            out = self._exact.sums.add_deviation(known, call)
        if out is None:
            out = compute(func, name, args, kwargs)
        is_exact = kind is RoundingKind.EXACT
        if is_invariant:
            is_constant = self._constants.contains((args, kwargs))
            # Targets may compute a compound operation by another formula.
            is_exact = is_exact or (
                is_constant and not self.depth and is_exact_result(name, args, out, self.unit)
            )
            if is_exact:
                self.invariant.add(out)
            if is_exact and is_constant:
                self._constants.add(out)
        if is_exact:
            return out
        inexact = [item for item in leaves(out) if is_inexact(item)]
        for index, tensor in enumerate(inexact):
            size, factor = None, self._get_relative_amplitude(kind, name)
            if sums is not None:
                size, factor = self._get_sum_amplitude(name, sums, index, tensor, bias)
            # In place, so that an operation that writes to its argument is perturbed there.
            if tensor.is_complex():
                size = ((tensor.abs() if size is None else size) * factor).unsqueeze(-1)
                self.noise.perturb(torch.view_as_real(tensor), size)
            else:
                self.noise.perturb(tensor, size, factor)
        if func._schema.is_mutable:
            return out
        return self.limit_range(name, out, args, kwargs)

    def interpolate(self, func: Any, name: str, args: tuple[Any, ...]) -> torch.Tensor:
        """Interpolate with perturbed coordinates and weights, and round the sums."""
        read = interpolate(
            func, name, args, self.noise.draw_uniform, self.precision.safety, self.unit
        )
        if read.magnitude is None:
            return read.values
        sums = Reduction(16, [read.magnitude], None)
        size, factor = self._get_sum_amplitude(name, sums, 0, read.values, None)
        values = read.values.clone()
        self.noise.perturb(values, size, factor)
        return values

    def limit_range(
        self, name: str, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return the result of the usual formula where an intermediate leaves the dtype's range;
        within a compound operation, the result as the dtype represents it."""
        if self._sample % 2 == 0:
            return result
        to_range = DtypeRange()
        to_range.narrow_to(torch.float32 if self._accumulates_wide(name) else self.dtype)
        first = result[0] if isinstance(result, tuple) else result
        if not is_inexact(first) or first.is_complex():
            return result
        limited = (
            to_range(first)
            if self.depth
            else apply_usual_formula(name, to_range, first, args, kwargs)
        )
        return (limited, *result[1:]) if isinstance(result, tuple) else limited

    def run_attention(self, call: AttentionCall) -> torch.Tensor:
        """Run attention with many scores. Its operations err as in its decomposition."""
        is_wide = self._accumulates_wide(attention.NAME)
        unit = min(self.unit, _FLOAT32_UNIT) if is_wide else self.unit
        depth, keys = call.query.shape[-1], call.key.shape[2]
        # Query and key are scaled by a root each. A mask is added to the rounded sum.
        query, key = (self.noise.perturb_copy(item, self.unit) for item in (call.query, call.key))
        score = self.unit * (is_wide + (call.is_causal or call.mask is not None))
        exponential = 2 * self.unit * self.precision.ulps("exp")
        quotient = self.unit * self.precision.division_roundings
        argument = self.unit * (1 + self.precision.argument_roundings)

        def draw_per_key(amplitude: Any) -> torch.Tensor:
            size = torch.as_tensor(amplitude, dtype=torch.float64)
            return self.noise.draw_uniform(size.expand(key.shape[:3]))

        errors = WeightErrors(
            side=self.noise.draw_block_signs(query.shape[:3]).unsqueeze(-1),
            norm=query.norm(dim=-1, keepdim=True).mul_(abs(call.scale)),
            a=draw_per_key(
                key.norm(dim=-1) * (Reduction(depth, None, None).count_roundings() * unit)
            ),
            b=draw_per_key(score),
            c=draw_per_key(exponential + quotient),
            d=draw_per_key(score + argument),
        )
        known = self._find_shared_sum(attention.NAME, (call.query, call.key, call.value))
        exact = None if known is None else known.attention
        if exact is None:
            exact = attention.evaluate(call)
        perturbed = replace(call, query=query, key=key)
        out = attention.evaluate_with_errors(errors, perturbed, exact.largest_scores)
        sums = Reduction(keys, [exact.magnitude], None)
        # The sum of a row's weights, by which it is divided; a wide one is rounded.
        rounding = float(sums.count_roundings()) * unit + is_wide * self.unit
        total = torch.full((*query.shape[:3], 1), rounding, dtype=torch.float64)
        out += out * self.noise.draw_uniform(total)
        size, factor = self._get_sum_amplitude(attention.NAME, sums, 0, out, None)
        self.noise.perturb(out, size, factor)
        return out

    def evaluate_discontinuous(
        self, function: Callable[..., torch.Tensor], *arguments: Any
    ) -> torch.Tensor:
        """Evaluate ``function`` on arguments with errors as large as a bound would allow.

        After a discontinuity or a requantization, values differ by more than rounding errors;
        extrapolating from them would go too far.
        """
        number = len(self.record.discontinuities)
        super().evaluate_discontinuous(function, *arguments)
        if number >= len(self._exact.discontinuities):
            return function(*arguments)
        exact, expected = self._exact.discontinuities[number]
        is_constant = self._constants.contains(arguments)
        if not (self._has_jumped or self._has_requantized):
            arguments = tuple(map(self._extrapolate, exact, arguments))
        result = function(*arguments)
        self._has_jumped = self._has_jumped or not _is_same(result, expected)
        if is_constant and function in (torch.floor, torch.trunc):
            self.invariant.add(result)
            self._constants.add(result)
        return result

    def _extrapolate(self, exact: Any, perturbed: Any) -> Any:
        if not isinstance(perturbed, torch.Tensor) or not perturbed.is_floating_point():
            return perturbed
        if exact.shape != perturbed.shape:
            return perturbed
        off = (perturbed - exact) * self.precision.safety
        return torch.where(off.isfinite(), exact + off, perturbed)

    def draw_tie_order(self, length: int) -> torch.Tensor | None:
        """Return their own order in the first run, the reverse in the second, then random ones."""
        if self._sample == 0:
            return None
        if self._sample == 1:
            return torch.arange(length - 1, -1, -1)
        return self.noise.draw_permutation(length)

    def clamp_to_domain(self, x: torch.Tensor, interval: tuple[float, float]) -> torch.Tensor:
        """Clamp elements that only noise moved out of the domain."""
        number = self._domains
        self._domains += 1
        if number >= len(self._exact.in_domain):
            return x
        in_domain = self._exact.in_domain[number]
        clamped = x.clamp(*interval)
        if in_domain is None or in_domain.shape != x.shape:
            return clamped if in_domain is None else x
        return torch.where(in_domain, clamped, x)

    def quantize(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
        """Quantize, and perturb codes by a step, as a requantization may."""
        out = super().quantize(func, args, kwargs)
        name = base_name(func)
        is_affine = name == "quantize_affine"  # its scale is a tensor, whether static or dynamic
        is_static = (
            self.invariant.contains(args[2]) if is_affine else not isinstance(args[1], torch.Tensor)
        )
        if is_static and any(args[0] is x for x in self.inputs):
            return out  # the program quantizes its input with the same operator and scale
        low, high = _get_code_range(name, args)
        steps = self._draw_steps(out.shape)
        return (out.double() + steps).clamp_(low, high).round_().to(out.dtype)

    def dequantize(self, blocks: BlockQuantizedTensor) -> torch.Tensor:
        """Decode, and perturb each block's scale and offset and each result."""
        if blocks.offset is not None:
            rounding = self.precision.block_roundings * self.unit
            scale, offset = (
                self.noise.perturb_copy(part, rounding) for part in (blocks.scale, blocks.offset)
            )
            blocks = replace(blocks, scale=scale, offset=offset)
        values = blocks.values()
        self.noise.perturb(values, factor=self.unit)
        return values

    def encode(self, product: MxProduct) -> torch.Tensor:
        """Encode, and perturb by a step the elements that noise may encode differently."""
        number, given = len(self.record.encoded_activations), product.activation
        self.record.encoded_activations.append(given)
        encoded = product.encode(given)
        is_recorded = number < len(self._exact.encoded_activations)
        off = (
            (given - self._exact.encoded_activations[number]).abs()
            if is_recorded
            else torch.full_like(given, math.inf)
        )
        values = encoded.values()
        if not (off > 0).any():
            return values  # an input, or moved, selected or compared from inputs
        # An error as large as the bound itself would allow, twice.
        unstable = product.find_unstable(off.mul_(2 * self.precision.safety))
        # One step from the unperturbed code: noise that crosses a tie is that step already.
        exact = product.encode(self._exact.encoded_activations[number]) if is_recorded else encoded
        steps = self._draw_steps(values.shape).mul_(exact.steps())
        return torch.where(unstable, exact.values() + steps, values)

    def _round_to_result(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Round arguments of an exact operator to its result's dtype.

        A tensor without dimensions does not promote the others, and is rounded to their dtype.
        """

        def round_scalar(item: Any) -> Any:
            if not isinstance(item, torch.Tensor) or item.dim() or not item.is_floating_point():
                return item
            is_finer = unit_roundoff(self.dtypes.get(item)) < unit_roundoff(self.dtype)
            return self.noise.perturb_copy(item, self.unit) if is_finer else item

        return args if self.depth else tuple(map(round_scalar, args))

    def _draw_steps(self, shape: torch.Size) -> torch.Tensor:
        """Draw errors of a requantization, in its steps.

        Later sums may still use shared magnitudes, which a step hardly changes.
        """
        self._has_requantized = True
        return self.noise.draw_signs(shape) * self.precision.step

    def _find_shared_sum(self, operator: Any, args: tuple[Any, ...]) -> SharedSum | None:
        """Find the stored record of a large sum; None after a discontinuity."""
        number, self._sums = self._sums, self._sums + 1
        return None if self._has_jumped else self._exact.sums.find(number, operator, args)

    def _get_relative_amplitude(self, kind: RoundingKind, name: str) -> float:
        """Return the amplitude of an operation that is no sum, relative to its result."""
        if kind is RoundingKind.FUNCTION:
            return 2 * self.unit * self.precision.ulps(name)
        if kind is RoundingKind.DIVISION:
            return self.unit * self.precision.division_roundings
        return self.unit

    def _accumulates_wide(self, name: str) -> bool:
        return self._is_wide or self.precision.sums_wide(name)

    def _get_sum_amplitude(
        self,
        name: str,
        sums: Reduction,
        index: int,
        values: torch.Tensor,
        bias: torch.Tensor | None,
    ) -> tuple[torch.Tensor, Any]:
        """Return the amplitude of a reduction's output with these values: a tensor and a factor."""
        magnitude = values.abs() if sums.magnitudes is None else sums.magnitudes[index]
        roundings = sums.count_roundings(self._exact_terms)
        if not self._accumulates_wide(name):
            return magnitude, roundings * self.unit
        # A bias may be added to the rounded sum, which is at most as large as both.
        rounded = values.abs() if bias is None else values.abs() + bias.abs()
        return magnitude * (roundings * min(self.unit, _FLOAT32_UNIT)) + rounded * self.unit, 1.0

    @contextmanager
    def inside_compound(self, name: str) -> Iterator[None]:
        """Run the decomposition of a compound operation; its sums may accumulate in float32."""
        outer, self._is_wide = self._is_wide, self._accumulates_wide(name)
        try:
            with super().inside_compound(name):
                yield
        finally:
            self._is_wide = outer

    @contextmanager
    def in_float32(self, exact_terms: int) -> Iterator[None]:
        """Run an operation in float32, independent of the program's dtype; its sums round once in
        ``exact_terms`` terms."""
        self._largest_unit, self._exact_terms = _FLOAT32_UNIT, exact_terms
        try:
            yield
        finally:
            self._largest_unit, self._exact_terms = math.inf, 1

    def perturb_arguments(self, func: Any, name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Perturb each argument by a backward error, the cost of range reduction and composition.

        No argument leaves the function's domain.
        """
        rounding = self.precision.argument_roundings * self.unit
        interval = find_domain(name, args)

        def perturb(item: Any, is_written: bool) -> Any:
            if not is_inexact(item) or item.is_complex():
                return item
            moved = self.noise.perturb_copy(item, rounding)
            if interval is not None:
                moved = clamp_halfway(item, moved, interval)
            # An in-place operator returns its result in this tensor.
            return item.copy_(moved) if is_written else moved

        writes = [
            argument.alias_info is not None and argument.alias_info.is_write
            for argument in func._schema.arguments
        ]
        return tuple(
            map_leaves(functools.partial(perturb, is_written=is_written), item)
            for item, is_written in zip(args, writes, strict=False)
        )


def _find_bias(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
    """Return the bias that is added to a sum of products, broadcasting with the result."""
    if name in ("addmm", "baddbmm", "addbmm", "addmv"):
        added: torch.Tensor = args[0] * kwargs.get("beta", 1)
        return added
    bias: torch.Tensor | None = args[2] if name in ("linear", "convolution") and args[2:] else None
    if bias is None or name == "linear":
        return bias
    return bias.reshape(-1, *[1] * (args[1].dim() - 2))


def _is_same(result: torch.Tensor, expected: torch.Tensor) -> bool:
    if result.shape != expected.shape:
        return False
    return bool(((result == expected) | ((result != result) & (expected != expected))).all())


def _get_code_range(name: str, args: tuple[Any, ...]) -> tuple[int, int]:
    """Return the lowest and highest code of a quantization."""
    if name == "quantize_affine":
        limits = torch.iinfo(args[4])
        low, high = (*args[5:7], None, None)[:2]
        return int(limits.min if low is None else low), int(limits.max if high is None else high)
    at = 4 if "per_channel" in name else 3
    return int(args[at]), int(args[at + 1])
