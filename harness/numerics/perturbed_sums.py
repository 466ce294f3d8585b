"""Perturb the sums of a float64 run: reductions, interpolation and attention.

:mod:`harness.numerics.perturbation` perturbs all other operations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from harness.model.precision import Precision
from harness.model.trees import leaves
from harness.numerics.arithmetic import Float64Mode
from harness.numerics.dtypes import get_compute_dtype, unit_roundoff
from harness.numerics.error_model.magnitudes import FLOAT32_UNIT, Reduction, analyze_reduction
from harness.numerics.error_model.noise import Noise
from harness.numerics.error_model.terms import Args, Kwargs, is_inexact
from harness.numerics.formats.semantics import GENERIC_SEMANTICS, OperatorSemantics
from harness.numerics.kernels.products import compute
from harness.numerics.large_tensors import attention
from harness.numerics.large_tensors.attention import AttentionCall
from harness.numerics.large_tensors.shared_sums import InvariantTensors, SharedSum, is_large
from harness.numerics.operators import Operator
from harness.numerics.pairing import RunRecord


class PerturbedSums(Float64Mode):  # type: ignore[no-untyped-call]
    """Runs in float64 and perturbs every sum by the amplitude of the target's rounding.

    Args:
        precision: the rounding model of the target.
        seed: seeds the noise.
        sample: number of this run.
        exact: the record of the unperturbed run.
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
        self._arithmetic = precision.arithmetic
        self.noise = Noise(seed, sample, self._exact.noise_pools)
        self._sample = sample
        self._is_wide = False
        self._largest_unit = math.inf
        self._exact_terms = 1
        self._has_jumped = False
        self.has_requantized = False
        # Computed from constants only, such as positions, and from no input or weight.
        self._constants = InvariantTensors()

    @property
    def running_means(self) -> bool:
        """Whether each deviation of a variance errs on its own."""
        return self.precision.running_means

    @property
    def compute_dtype(self) -> torch.dtype:
        """Dtype that the target computes the current operator in."""
        return get_compute_dtype(self.dtype, self._arithmetic)

    @property
    def unit(self) -> float:
        """Unit roundoff of the dtype that the target computes the current operator in."""
        return min(unit_roundoff(self.compute_dtype), self._largest_unit)

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
        self._largest_unit, self._exact_terms = FLOAT32_UNIT, exact_terms
        try:
            yield
        finally:
            self._largest_unit, self._exact_terms = math.inf, 1

    def run_reduction(self, operator: Operator, args: Args, kwargs: Kwargs) -> Any:
        """Run a reduction; a large one from the sum of the unperturbed run, where it is stored."""
        func, rule = operator.func, operator.rule.sum
        # Before the operation, which may write to its arguments.
        is_invariant = self.invariant.contains((args, kwargs))
        known = self._find_shared_sum(operator, args) if is_large(func, args) else None
        sums = None if known is None else known.reduction
        if sums is None:
            unit, coarse = self._get_sum_unit(operator.name), known is not None
            sums = analyze_reduction(func, operator.name, rule, args, kwargs, unit, coarse=coarse)
            if known is not None:
                self._exact.sums.store_reduction(known, sums)
        is_wide = self._accumulates_wide(operator.name)
        bias = rule.find_bias(args, kwargs) if is_wide else None
        out = None
        if known is not None:
            out = self._compute_from_shared(known, operator, args, kwargs, is_invariant)
        if out is None:
            out = compute(func, operator.name, args, kwargs)
        for index, tensor in enumerate(item for item in leaves(out) if is_inexact(item)):
            size, factor = self._get_sum_amplitude(operator.name, sums, index, tensor, bias)
            self.perturb_result(tensor, size, factor)
        if operator.is_mutable:
            return out
        return self.limit_range(operator, out, args, kwargs)

    def _compute_from_shared(
        self, known: SharedSum, operator: Operator, args: Args, kwargs: Kwargs, is_invariant: bool
    ) -> torch.Tensor | None:
        """Return the result of a large sum from the unperturbed run's; None where it cannot."""
        if is_invariant:
            return known.copy_result()
        call = self.find_linear_call(operator, args, kwargs)
        return None if call is None else self._exact.sums.add_deviation(known, call)

    def _find_shared_sum(self, operator: Operator, args: Args) -> SharedSum | None:
        """Find the stored record of a large sum; None after a discontinuity."""
        node = self.nodes.add(operator.func)
        return None if self._has_jumped else self._exact.sums.find(node, args)

    def interpolate(self, operator: Operator, args: Args) -> torch.Tensor:
        """Interpolate with perturbed coordinates and weights, and round the sums."""
        interpolate = operator.rule.interpolate
        assert interpolate is not None
        draw, safety = self.noise.draw_uniform, self.precision.safety
        read = interpolate(operator.func, args, draw, safety, self.unit)
        if read.magnitude is None:
            return read.values
        sums = Reduction(16, [read.magnitude], None)
        size, factor = self._get_sum_amplitude(operator.name, sums, 0, read.values, None)
        values = read.values.clone()
        self.noise.perturb(values, size, factor)
        return values

    def run_attention(self, operator: Operator, call: AttentionCall) -> torch.Tensor:
        """Run attention with many scores. Its operations err as in its decomposition."""
        is_wide, unit = self._accumulates_wide(operator.name), self._get_sum_unit(operator.name)
        # Query and key are scaled by a root each.
        query, key = (self.noise.perturb_copy(item, self.unit) for item in (call.query, call.key))
        perturbed = replace(call, query=query, key=key)
        errors = attention.draw_weight_errors(
            perturbed, self.noise, self.precision, self.unit, is_wide=is_wide
        )
        known = self._find_shared_sum(operator, (call.query, call.key, call.value))
        exact = None if known is None else known.attention
        if exact is None:
            exact = attention.evaluate(call)
        out = attention.evaluate_with_errors(errors, perturbed, exact.largest_scores)
        sums = Reduction(key.shape[2], [exact.magnitude], None)
        # The sum of a row's weights, by which it is divided; a wide one is rounded.
        rounding = float(sums.count_roundings()) * unit + is_wide * self.unit
        total = torch.full((*query.shape[:3], 1), rounding, dtype=torch.float64)
        out += out * self.noise.draw_uniform(total)
        size, factor = self._get_sum_amplitude(operator.name, sums, 0, out, None)
        self.noise.perturb(out, size, factor)
        return out

    def perturb_result(self, tensor: torch.Tensor, size: torch.Tensor | None, factor: Any) -> None:
        """Perturb a result in place, so that an operation that writes to its argument is perturbed
        there."""
        if tensor.is_complex():
            size = ((tensor.abs() if size is None else size) * factor).unsqueeze(-1)
            self.noise.perturb(torch.view_as_real(tensor), size)
        else:
            self.noise.perturb(tensor, size, factor)

    def _accumulates_wide(self, name: str) -> bool:
        return self._is_wide or self.precision.sums_wide(name)

    def _get_sum_unit(self, name: str) -> float:
        """Return the unit roundoff that the sums of an operation accumulate in."""
        return min(self.unit, FLOAT32_UNIT) if self._accumulates_wide(name) else self.unit

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
        return magnitude * (roundings * min(self.unit, FLOAT32_UNIT)) + rounded * self.unit, 1.0
