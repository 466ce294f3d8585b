"""Perturb a float64 run as a target's arithmetic would (Monte Carlo arithmetic).

docs/numerics.md derives the amplitudes; :mod:`harness.numerics.bounds` computes bounds from the
runs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from harness.model.trees import leaves, map_leaves
from harness.numerics.dtypes import get_compute_dtype, unit_roundoff
from harness.numerics.error_model.constants import ConstantRounding, round_constants
from harness.numerics.error_model.exact_results import is_representable
from harness.numerics.error_model.ranges import (
    DtypeRange,
    Interval,
    apply_usual_formula,
    clamp_halfway,
    limit_to,
)
from harness.numerics.error_model.rules import RoundingKind
from harness.numerics.error_model.terms import Args, Kwargs, is_inexact
from harness.numerics.formats.block_scaled import MxProduct
from harness.numerics.formats.dequantize import BlockQuantizedTensor
from harness.numerics.formats.quantization_steps import (
    find_ties,
    get_code_range,
    is_scaled_by_row,
)
from harness.numerics.kernels.products import compute
from harness.numerics.operators import Operator
from harness.numerics.perturbed_sums import PerturbedSums

_FLOAT16_UNIT = unit_roundoff(torch.float16)
_FLOAT16_SMALLEST = torch.finfo(torch.float16).tiny


class PerturbedMode(PerturbedSums):  # type: ignore[no-untyped-call]
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

    def round_constants(
        self, operator: Operator, args: Args, kwargs: Kwargs
    ) -> tuple[Args, Kwargs]:
        """Perturb constants, in all elements alike. Constants of comparisons are rounded in every
        second run."""
        rounding = operator.rule.constants
        if rounding is None:
            return args, kwargs

        def draw(number: float, nearest: float) -> float:
            if rounding is ConstantRounding.COMPARED:
                return nearest if self._sample % 2 else number
            off = torch.tensor(abs(nearest - number), dtype=torch.float64)
            return number + float(self.noise.draw_uniform(off))

        return round_constants(args, kwargs, self.compute_dtype.to_real(), draw)

    def round_given(self, tree: Any) -> Any:
        """Return state and inputs as the target has them, tied tensors still tied.

        Where the target computes in a narrower dtype, they are rounded to it. The error is drawn:
        a target that folds weights rounds the folded ones.
        """
        super().round_given(tree)
        if self._arithmetic is None:
            return tree
        rounded: dict[int, Any] = {}

        def round_once(item: Any) -> Any:
            if not is_inexact(item):
                return item
            if id(item) not in rounded:
                dtype = self.dtypes.get(item)
                rounded[id(item)] = self._round_to_arithmetic(item, dtype)
                self.dtypes.mark(rounded[id(item)], dtype)
            return rounded[id(item)]

        return map_leaves(round_once, tree)

    def _round_to_arithmetic(self, item: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Return a tensor of this dtype as the target's arithmetic has it; itself where it has
        all elements exactly."""
        narrow = get_compute_dtype(dtype, self._arithmetic)
        if narrow == dtype:
            return item
        item = item.detach()
        is_exact = (item.to(narrow) == item) | item.isnan()
        if bool(is_exact.all()):
            return item
        rounded = limit_to(narrow, self.noise.perturb_copy(item, unit_roundoff(narrow)))
        return torch.where(is_exact, item, rounded)

    def _round_made(self, operator: Operator, args: Args, kwargs: Kwargs, out: Any) -> Any:
        """Return the result of an exact operator as the target has it: a tensor that is made of
        numbers is rounded to the target's arithmetic."""
        if self._arithmetic is None or operator.is_mutable or self.depth:
            return out
        if any(map(is_inexact, leaves((args, kwargs)))):
            return out
        return map_leaves(
            lambda item: self._round_to_arithmetic(item, self.dtype) if is_inexact(item) else item,
            out,
        )

    def run_primitive(self, operator: Operator, args: Args, kwargs: Kwargs) -> Any:
        """Run one primitive operation and perturb its result by its rounding error."""
        kind = self.get_rounding_kind(operator, args, kwargs)
        if kind is RoundingKind.REDUCTION:
            return self.run_reduction(operator, args, kwargs)
        if kind is RoundingKind.EXACT:
            args = self._round_to_result(args)
        elif kind is RoundingKind.FUNCTION:
            args = self.perturb_arguments(operator, args)
        is_invariant = self.invariant.contains((args, kwargs))
        out = compute(operator.func, operator.name, args, kwargs)
        is_exact = kind is RoundingKind.EXACT
        if is_exact and (made := self._round_made(operator, args, kwargs, out)) is not out:
            return made
        if is_invariant:
            is_exact = self._note_if_exact(operator, args, kwargs, out, is_exact=is_exact)
        if is_exact:
            return out
        factor = self._get_relative_amplitude(kind, operator.name)
        for tensor in leaves(out):
            if is_inexact(tensor):
                self.perturb_result(tensor, self._get_rounded_size(tensor), factor)
        if operator.is_mutable:
            return out
        return self.limit_range(operator, out, args, kwargs)

    def _note_if_exact(
        self, operator: Operator, args: Args, kwargs: Kwargs, out: Any, *, is_exact: bool
    ) -> bool:
        """Return whether the result of arguments that are the same in every run is so, too.

        Args:
            operator: the operator.
            args: arguments that are the same in every run.
            kwargs: likewise.
            out: its result.
            is_exact: the operator is exact; others may be exact for constants.
        """
        is_constant = self._constants.contains((args, kwargs))
        if not is_exact and is_constant and not self.depth:
            # Inside a compound operation, targets may compute it by another formula.
            is_exact = operator.rule.rounds_correctly(args) and is_representable(out, self.unit)
        if is_exact:
            self.invariant.add(out)
            if is_constant:
                self._constants.add(out)
        return is_exact

    def limit_range(self, operator: Operator, result: Any, args: Args, kwargs: Kwargs) -> Any:
        """Return the result of the usual formula where an intermediate leaves the dtype's range;
        within a compound operation, or where the target computes in a narrower dtype than eager,
        the result as the dtype represents it."""
        if self.compute_dtype != self.dtype and not self.depth and is_inexact(result):
            result = limit_to(self.compute_dtype, result)
        formula = operator.rule.usual_formula
        if self._sample % 2 == 0 or (not self.depth and formula is None):
            return result
        to_range = DtypeRange()
        is_wide = self._accumulates_wide(operator.name)
        to_range.narrow_to(torch.float32 if is_wide else self.compute_dtype)
        first = result[0] if isinstance(result, tuple) else result
        if not is_inexact(first) or first.is_complex():
            return result
        if self.depth or formula is None:
            limited = to_range(first)
        else:
            limited = apply_usual_formula(formula, to_range, first, args, kwargs)
        return (limited, *result[1:]) if isinstance(result, tuple) else limited

    def evaluate_discontinuous(
        self, func: Any, function: Callable[..., torch.Tensor], *arguments: Any
    ) -> torch.Tensor:
        """Evaluate ``function`` on arguments with errors as large as a bound would allow.

        After a discontinuity or a requantization, values differ by more than rounding errors;
        extrapolating from them would go too far.
        """
        known = self._exact.discontinuities.get(self.nodes.add(func))
        if known is None:
            return function(*arguments)
        exact, expected = known
        is_constant = self._constants.contains(arguments)
        if not (self._has_jumped or self.has_requantized):
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

    def clamp_to_domain(
        self, operator: Operator, x: torch.Tensor, interval: Interval
    ) -> torch.Tensor:
        """Clamp elements that only noise moved out of the domain."""
        node = self.nodes.add(operator.func)
        if node not in self._exact.in_domain:
            return x
        in_domain = self._exact.in_domain[node]
        clamped = x.clamp(*interval)
        if in_domain is None or in_domain.shape != x.shape:
            return clamped if in_domain is None else x
        return torch.where(in_domain, clamped, x)

    def quantize(self, operator: Operator, args: Args, kwargs: Kwargs) -> torch.Tensor:
        """Quantize, and perturb codes by a step, as a requantization may."""
        out = super().quantize(operator, args, kwargs)
        if self.is_quantized_by_program(operator, args):
            return out
        low, high = get_code_range(operator.name, args)
        steps = self._draw_steps(out.shape)
        is_affine = operator.name == "quantize_affine"
        if is_affine and self.invariant.contains(args[0]) and is_scaled_by_row(args[0], args[1]):
            # The target chooses the same scale, from the same row.
            steps *= find_ties(args[0], args[2], out, (low, high))
        return (out.double() + steps).clamp_(low, high).round_().to(out.dtype)

    def is_quantized_by_program(self, operator: Operator, args: Args) -> bool:
        """Whether the program quantizes one of its inputs, with the same operator and scale."""
        is_affine = operator.name == "quantize_affine"  # its scale is a tensor, static or dynamic
        is_static = (
            self.invariant.contains(args[2]) if is_affine else not isinstance(args[1], torch.Tensor)
        )
        return is_static and any(args[0] is x for x in self.inputs)

    def dequantize(self, blocks: BlockQuantizedTensor) -> torch.Tensor:
        """Decode, and perturb each block's scale and offset and each result."""
        if blocks.offset is not None:
            rounding = self.precision.block_roundings * self.unit
            scale, offset = (
                self.noise.perturb_copy(part, rounding) for part in (blocks.scale, blocks.offset)
            )
            blocks = replace(blocks, scale=scale, offset=offset)
        if self.precision.scale_roundings:
            blocks = self._perturb_scales(blocks)
        values = blocks.values()
        self.noise.perturb(values, factor=self.unit)
        return values

    def _perturb_scales(self, blocks: BlockQuantizedTensor) -> BlockQuantizedTensor:
        """Perturb the scale of each block: the same factor for codes and offset."""
        rounding = self.precision.scale_roundings * self.unit
        scale = self.noise.perturb_copy(blocks.scale, rounding)
        factor = torch.where(blocks.scale == 0, 1.0, scale / blocks.scale)
        offset = None if blocks.offset is None else blocks.offset * factor
        return replace(blocks, scale=scale, offset=offset)

    def encode(self, func: Any, product: MxProduct) -> torch.Tensor:
        """Encode, and perturb by a step the elements that noise may encode differently."""
        given = product.activation
        recorded = self._exact.encoded_activations.get(self.nodes.add(func))
        encoded = product.encode(given)
        off = (given - recorded).abs() if recorded is not None else torch.full_like(given, math.inf)
        values = encoded.values()
        if not (off > 0).any():
            return values  # an input, or moved, selected or compared from inputs
        # An error as large as the bound itself would allow, twice.
        unstable = product.find_unstable(off.mul_(2 * self.precision.safety))
        # One step from the unperturbed code: noise that crosses a tie is that step already.
        exact = encoded if recorded is None else product.encode(recorded)
        steps = self._draw_steps(values.shape).mul_(exact.steps())
        return torch.where(unstable, exact.values() + steps, values)

    def _round_to_result(self, args: Args) -> Args:
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
        self.has_requantized = True
        return self.noise.draw_signs(shape) * self.precision.step

    def _get_relative_amplitude(self, kind: RoundingKind, name: str) -> float:
        """Return the amplitude of an operation that is no sum, relative to its result."""
        if kind is RoundingKind.FUNCTION:
            return 2 * self.unit * self.precision.ulps(name)
        if kind is RoundingKind.DIVISION:
            return self.unit * self.precision.division_roundings
        return self.unit

    def _get_rounded_size(self, result: torch.Tensor) -> torch.Tensor | None:
        """Return the size that a result's rounding error is relative to; None for its own.

        Subnormal numbers of float16 are rounded to multiples of the smallest one, which is an error
        relative to the smallest normal number. Those of other dtypes are too small to matter.
        """
        is_half = torch.float16 in (self.dtype, self.compute_dtype) and self.unit >= _FLOAT16_UNIT
        if not is_half or result.is_complex():
            return None
        size = result.abs()
        return torch.where(size > 0, size.clamp_min(_FLOAT16_SMALLEST), size)

    def perturb_arguments(self, operator: Operator, args: Args) -> Args:
        """Perturb each argument by a backward error, the cost of range reduction and composition.

        No argument leaves the function's domain.
        """
        rounding = self.precision.argument_roundings * self.unit
        interval = operator.rule.find_domain(args)

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
            for argument in operator.func._schema.arguments
        ]
        return tuple(
            map_leaves(functools.partial(perturb, is_written=is_written), item)
            for item, is_written in zip(args, writes, strict=False)
        )


def _is_same(result: torch.Tensor, expected: torch.Tensor) -> bool:
    if result.shape != expected.shape:
        return False
    return bool(((result == expected) | ((result != result) & (expected != expected))).all())
