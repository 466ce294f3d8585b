"""The rule of each operator: how far its result may be from the exact one, and why.

``RULES`` is the only table that bounds are based on. An operator is exact (it moves, selects or
compares), rounds once, is a division, is an elementary function, or is a reduction whose error
grows with its length. A compound operator runs as its decomposition. An operator without a rule
counts as an elementary function, which never underestimates the error of a single result.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from harness.numerics.error_model import (
    discontinuities as jumps,
    interpolation,
    magnitudes,
    ranges,
    terms,
)
from harness.numerics.error_model.constants import ConstantRounding
from harness.numerics.error_model.exact_results import has_power_of_two
from harness.numerics.error_model.magnitudes import SumRule
from harness.numerics.error_model.terms import Args, CountTerms, FindBias, Kwargs


class RoundingKind(enum.Enum):
    """How an operation's result may deviate."""

    EXACT = enum.auto()
    ROUNDED = enum.auto()
    DIVISION = enum.auto()
    FUNCTION = enum.auto()
    REDUCTION = enum.auto()


@dataclass(frozen=True)
class Rule:
    """The rule of an operator, for all of its overloads.

    Attributes:
        kind: how its result may deviate.
        is_compound: it runs as its decomposition, if an overload has one.
        errs_in_argument: its argument errs as a function's does, although it is compound.
        is_cast: it may round to another dtype, or not round.
        domain: returns the closed interval in which the first argument of a call gives real
            values; None for an unbounded one.
        usual_formula: the formula whose intermediates may leave a dtype's range.
        jump: how a small error of an argument may change its result by a whole step.
        constants: whether its Python numbers are rounded, and how.
        interpolate: runs overloads that take output sizes, with perturbed coordinates and weights.
        sum: terms and magnitudes of a reduction.
        accumulates: whether a call is a reduction although the operator is not.
        rounds_correctly: whether every target rounds a call correctly, so that a representable
            result is exact.
    """

    kind: RoundingKind = RoundingKind.FUNCTION
    is_compound: bool = False
    errs_in_argument: bool = False
    is_cast: bool = False
    domain: Callable[[Args], ranges.Interval | None] | None = None
    usual_formula: Callable[..., torch.Tensor] | None = None
    jump: jumps.Jump | None = None
    constants: ConstantRounding | None = None
    interpolate: interpolation.Interpolate | None = None
    sum: SumRule = SumRule()  # noqa: RUF009  # frozen
    accumulates: Callable[[Args, Kwargs], bool] | None = None
    rounds_correctly: Callable[[Args], bool] = terms.never

    def find_domain(self, args: Args) -> ranges.Interval | None:
        """Return the domain of a call's first argument; None where it is unbounded."""
        return None if self.domain is None else self.domain(args)

    def get_kind(self, args: Args, kwargs: Kwargs) -> RoundingKind:
        """Return how the result of a call may deviate."""
        if self.accumulates is not None and self.accumulates(args, kwargs):
            return RoundingKind.REDUCTION
        return self.kind


def _within(low: float, high: float) -> Callable[[Args], ranges.Interval]:
    return lambda args: (low, high)


def _find_domain_of_base(args: Args) -> ranges.Interval | None:
    is_root = len(args) > 1 and isinstance(args[1], float) and args[1] % 1
    return (0.0, math.inf) if is_root else None


EXACT, ROUNDED, DIVISION, _, REDUCTION = RoundingKind
_DRAWN, _COMPARED = ConstantRounding
_POSITIVE = _within(0.0, math.inf)


def _sum(
    count_terms: CountTerms = terms.count_per_output,
    usual_formula: Callable[..., torch.Tensor] | None = None,
    **how: Any,
) -> Rule:
    return Rule(REDUCTION, usual_formula=usual_formula, sum=SumRule(count_terms, **how))


def _product(
    first: int = 0,
    across: int = -2,
    find_bias: FindBias = terms.find_no_bias,
    batches: bool = False,
) -> Rule:
    """Return the rule of a matrix product.

    Args:
        first: position of the first factor; 1 where the product is added to a tensor.
        across: the dimension of the second factor that is summed.
        batches: whether batches are summed, too.
        find_bias: returns another bias than that tensor.
    """
    return _sum(
        lambda args, out: first + args[first].shape[-1] * (args[first].shape[0] if batches else 1),
        find_repeated=partial(
            terms.count_repeated_products, first=first, across=across, batches=batches
        ),
        find_bias=terms.find_added if first else find_bias,
    )


ENTRIES: dict[str, Rule] = {
    """
    abs alias amax amin arange as_strided bitwise_and bitwise_not bitwise_or bitwise_xor cat
    channel_shuffle clone constant_pad_nd contiguous copysign detach diagonal diagonal_scatter
    embedding empty broadcast_in_dim empty_like empty_strided expand eye flip fmax fmin gather
    index index_copy index_fill index_select isfinite isinf isnan item lift_fresh logical_and
    logical_not logical_or logical_xor masked_scatter masked_select max_pool1d max_pool2d
    max_pool2d_with_indices max_pool3d_with_indices maximum minimum narrow neg new_empty
    new_ones new_zeros nonzero ones ones_like permute pixel_shuffle pixel_unshuffle
    reflection_pad1d reflection_pad2d reflection_pad3d relu repeat repeat_interleave
    replication_pad1d replication_pad2d replication_pad3d resize reshape roll scatter select
    select_scatter slice slice_scatter split split_with_sizes squeeze stack t take tile
    transpose tril triu unbind unfold unsqueeze view view_as zero zeros zeros_like
    adaptive_max_pool2d adaptive_max_pool3d any all _adaptive_avg_pool_indices
    _local_scalar_dense _unsafe_view _reshape_alias _reshape_copy _assert_async
    _assert_tensor_metadata _conj _conj_physical aminmax conj_physical cummax cummin imag
    isneginf isposinf real resolve_conj resolve_neg signbit view_as_complex view_as_real im2col
    view_copy permute_copy expand_copy select_copy slice_copy squeeze_copy unsqueeze_copy
    transpose_copy split_copy unbind_copy
    """: Rule(EXACT),
    """
    clamp clamp_max clamp_min fill full full_like hardtanh masked_fill new_full scalar_tensor
    threshold where
    """: Rule(EXACT, constants=_DRAWN),
    "copy": Rule(EXACT, is_cast=True),
    "index_put": Rule(
        EXACT,
        accumulates=lambda args, kwargs: True in args[3:4] or bool(kwargs.get("accumulate")),
        sum=SumRule(lambda args, out: args[2].numel() + 1),
    ),
    # Jumps.
    "bucketize ceil floor heaviside round searchsorted sgn sign trunc": Rule(
        EXACT, jump=jumps.STEP
    ),
    "frac": Rule(EXACT, jump=jumps.FRACTION),
    "eq ge gt le lt ne": Rule(EXACT, jump=jumps.STEP, constants=_COMPARED),
    "argmax argmin argsort kthvalue max median min nanmedian sort topk": Rule(
        EXACT, jump=jumps.SELECTION
    ),
    "mode": Rule(jump=jumps.SELECTION),
    "floor_divide": Rule(DIVISION, jump=jumps.FLOOR_QUOTIENT, constants=_COMPARED),
    "remainder": Rule(DIVISION, jump=jumps.REMAINDER, constants=_COMPARED),
    "fmod": Rule(DIVISION, jump=jumps.FMOD, constants=_COMPARED),
    # One rounding, and divisions.
    "_to_copy to": Rule(
        ROUNDED, is_cast=True, jump=jumps.TO_INTEGER, rounds_correctly=terms.always
    ),
    "add mul rsub sub": Rule(ROUNDED, constants=_DRAWN, rounds_correctly=terms.always),
    "hardshrink softshrink square": Rule(ROUNDED),
    "sqrt": Rule(ROUNDED, domain=_POSITIVE),
    "div": Rule(
        DIVISION, constants=_DRAWN, jump=jumps.ROUNDED_QUOTIENT, rounds_correctly=has_power_of_two
    ),
    "reciprocal true_divide": Rule(DIVISION),
    "rsqrt": Rule(DIVISION, domain=_POSITIVE),
    # Functions with a domain, or with a formula that overflows. Others need no rule.
    "acos asin atanh erfinv": Rule(domain=_within(-1.0, 1.0)),
    "acosh": Rule(domain=_within(1.0, math.inf), usual_formula=ranges.acosh),
    "asinh": Rule(usual_formula=ranges.asinh),
    "cosh": Rule(usual_formula=ranges.cosh),
    "hypot": Rule(usual_formula=ranges.hypot),
    "log log10 log2": Rule(domain=_POSITIVE),
    "log1p": Rule(domain=_within(-1.0, math.inf)),
    "pow": Rule(domain=_find_domain_of_base, constants=_DRAWN),
    "sinh": Rule(usual_formula=ranges.sinh),
    "special_ndtri": Rule(domain=_within(0.0, 1.0)),
    # Reductions.
    "sum nansum": _sum(find_repeated=terms.count_repeated_rows),
    "mean": _sum(usual_formula=ranges.mean, find_repeated=terms.count_repeated_rows, is_mean=True),
    "bmm mm": _product(),
    "dot mv": _product(across=-1),
    "linear": _product(across=-1, find_bias=lambda args, kwargs: args[2] if args[2:] else None),
    "addmm baddbmm": _product(1),
    "addmv": _product(1, across=-1),
    "addbmm": _product(1, batches=True),
    "convolution": _sum(terms.count_kernel, find_bias=terms.find_convolution_bias),
    "cumsum": _sum(terms.count_along, find_repeated=terms.count_repeated_along, is_running=True),
    "cumprod": _sum(
        terms.count_along,
        find_repeated=terms.count_all,
        is_running=True,
        is_relative=terms.always,
    ),
    "prod": _sum(find_repeated=terms.count_all, is_relative=terms.always),
    "linalg_vector_norm": _sum(usual_formula=ranges.norm, is_relative=terms.always),
    "_cdist_forward": _sum(lambda args, out: 2 * args[0].shape[-1], is_relative=terms.always),
    "avg_pool1d avg_pool2d avg_pool3d": _sum(lambda args, out: math.prod(args[1]), is_mean=True),
    "_adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d": _sum(
        lambda args, out: 2 * max(1, terms.count_per_output(args, out)), is_mean=True
    ),
    "col2im index_add index_reduce scatter_add": _sum(lambda args, out: args[0].numel()),
    "scatter_reduce": _sum(
        lambda args, out: args[0].numel(), is_relative=lambda args: "prod" in args
    ),
    "_fft_r2c _fft_c2c": _sum(analyze=magnitudes.analyze_fourier),
    "_fft_c2r": _sum(analyze=partial(magnitudes.analyze_fourier, is_inverse=True)),
    # Interpolation. Overloads with scale factors instead of sizes decompose to these.
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d": Rule(
        EXACT, interpolate=interpolation.NEAREST
    ),
    "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d": Rule(
        EXACT, interpolate=interpolation.NEAREST_EXACT
    ),
    "upsample_linear1d upsample_bilinear2d upsample_trilinear3d": Rule(
        interpolate=interpolation.LINEAR
    ),
    "upsample_bicubic2d": Rule(interpolate=interpolation.CUBIC),
    "_upsample_bilinear2d_aa": Rule(interpolate=interpolation.ANTIALIASED_LINEAR),
    "_upsample_bicubic2d_aa": Rule(interpolate=interpolation.ANTIALIASED_CUBIC),
    "grid_sampler_2d grid_sampler_3d": Rule(interpolate=interpolation.sample_grid),
    # Compound operators.
    """
    native_layer_norm native_group_norm _native_batch_norm_legit_no_training native_batch_norm
    _native_batch_norm_legit batch_norm layer_norm group_norm rms_norm _fused_rms_norm _softmax
    _log_softmax softmax log_softmax var std var_mean std_mean addcmul addcdiv lerp addr norm
    logaddexp _scaled_dot_product_flash_attention_for_cpu binary_cross_entropy mse_loss
    smooth_l1_loss huber_loss nan_to_num _euclidean_dist
    """: Rule(is_compound=True),
    "logsumexp": Rule(is_compound=True, usual_formula=ranges.logsumexp),
    # With one argument: as for a function, each may err by a rounding of its argument.
    "gelu silu mish elu leaky_relu hardswish hardsigmoid softplus glu celu selu": Rule(
        is_compound=True, errs_in_argument=True
    ),
    "log_sigmoid_forward": Rule(
        is_compound=True, errs_in_argument=True, usual_formula=ranges.log_sigmoid
    ),
    "logit": Rule(is_compound=True, errs_in_argument=True, domain=_within(0.0, 1.0)),
}
"""The rule of each operator, by base names. Names that share a rule share an entry."""

RULES = {name: rule for names, rule in ENTRIES.items() for name in names.split()}
"""The rules by base name."""

_OTHER = Rule()


def get_rule(name: str) -> Rule:
    """Return the rule of the operator with that base name."""
    return RULES.get(name, _OTHER)


def contains_reduction(name: str) -> bool:
    """Whether the operation with that base name sums, itself or in its decomposition."""
    rule = get_rule(name)
    return rule.kind is REDUCTION or rule.is_compound


def base_name(func: Any) -> str:
    """Return the ATen name of an overload without namespace, overload, or in-place underscore."""
    name: str = func._schema.name.rpartition("::")[2]
    return name.removesuffix("_") if not name.startswith("__") else name
