"""Which ATen operations round, and how: the table that the bounds are based on.

An operation is exact (it moves, selects or compares), rounds once, is a division, is an
elementary function, or is a reduction whose error grows with its length. Compound operations run
as their decomposition. An operation in no list counts as an elementary function, which never
underestimates the error of a single result.
"""

from __future__ import annotations

import enum
from typing import Any


class RoundingKind(enum.Enum):
    """How an operation's result may deviate."""

    EXACT = enum.auto()
    ROUNDED = enum.auto()
    DIVISION = enum.auto()
    FUNCTION = enum.auto()
    REDUCTION = enum.auto()


EXACT_NAMES = frozenset(
    """
    abs alias amax amin arange argmax argmin argsort as_strided bitwise_and bitwise_not
    bitwise_or bitwise_xor bucketize cat ceil channel_shuffle clamp clamp_max clamp_min clone
    constant_pad_nd contiguous copy copysign detach diagonal diagonal_scatter embedding empty
    broadcast_in_dim empty_like empty_strided eq expand eye fill flip floor fmax fmin full full_like
    gather ge gt
    hardtanh index index_copy index_fill index_put index_select isfinite isinf isnan item
    kthvalue le lift_fresh logical_and logical_not logical_or logical_xor lt masked_fill
    masked_scatter masked_select max max_pool1d max_pool2d max_pool2d_with_indices
    max_pool3d_with_indices maximum median min minimum narrow ne neg new_empty new_full
    new_ones new_zeros nonzero ones ones_like permute pixel_shuffle pixel_unshuffle
    reflection_pad1d reflection_pad2d reflection_pad3d relu repeat repeat_interleave
    replication_pad1d replication_pad2d replication_pad3d resize reshape roll round scalar_tensor
    scatter select select_scatter sign sgn slice slice_scatter sort split split_with_sizes
    squeeze stack t take tile topk transpose tril triu trunc unbind unfold unsqueeze
    upsample_nearest1d upsample_nearest2d upsample_nearest3d view view_as where zero zeros
    zeros_like adaptive_max_pool2d adaptive_max_pool3d any all threshold frac
    _adaptive_avg_pool_indices _local_scalar_dense _unsafe_view _reshape_alias _reshape_copy
    _assert_async _assert_tensor_metadata _conj _conj_physical aminmax
    conj_physical cummax cummin heaviside imag isneginf isposinf nanmedian real resolve_conj
    resolve_neg searchsorted signbit view_as_complex view_as_real _upsample_nearest_exact1d
    _upsample_nearest_exact2d _upsample_nearest_exact3d im2col view_copy permute_copy expand_copy
    select_copy slice_copy squeeze_copy unsqueeze_copy transpose_copy split_copy unbind_copy
    """.split()
)
CASTS = frozenset("_to_copy to copy".split())
"""Operations that round to another dtype, or do not round."""

_ROUNDED = CASTS | frozenset("add sub rsub mul sqrt square hardshrink softshrink".split())
_DIVISION = frozenset("div true_divide reciprocal floor_divide remainder fmod rsqrt".split())
_REDUCTION = frozenset(
    """
    sum mean mm bmm addmm baddbmm addbmm addmv mv dot linear convolution cumsum prod avg_pool1d
    avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d
    scatter_add scatter_reduce index_add linalg_vector_norm
    _cdist_forward cumprod index_reduce col2im
    _fft_r2c _fft_c2r _fft_c2c nansum
    """.split()
)
ROUNDING_NAMES = _ROUNDED | _DIVISION | _REDUCTION
"""Operations with a rounding rule of their own; others count as elementary functions."""

CORRECTLY_ROUNDED = frozenset("add sub rsub mul _to_copy to".split())
"""Operations with one correctly rounded result on every target, exact where representable."""

COMPOUND = frozenset(
    """
    native_layer_norm native_group_norm _native_batch_norm_legit_no_training native_batch_norm
    _native_batch_norm_legit batch_norm layer_norm group_norm rms_norm _fused_rms_norm _softmax
    _log_softmax softmax log_softmax logsumexp var std var_mean std_mean gelu silu mish elu
    leaky_relu hardswish hardsigmoid softplus log_sigmoid_forward glu celu selu logit addcmul
    addcdiv lerp addr norm logaddexp _scaled_dot_product_flash_attention_for_cpu
    binary_cross_entropy mse_loss smooth_l1_loss huber_loss nan_to_num _euclidean_dist
    """.split()
)


# Compound, with one argument: as for a function, each may err by a rounding of its argument.
ACTIVATIONS = frozenset(
    """
    gelu silu mish elu leaky_relu hardswish hardsigmoid softplus log_sigmoid_forward glu celu selu
    logit
    """.split()
)


def contains_reduction(name: str) -> bool:
    """Whether the operation with that base name sums, itself or in its decomposition."""
    return name in _REDUCTION or name in COMPOUND


def base_name(func: Any) -> str:
    """Return the ATen name of an overload without namespace, overload, or in-place underscore."""
    name: str = func._schema.name.rpartition("::")[2]
    return name.removesuffix("_") if not name.startswith("__") else name


def get_rounding_kind(
    name: str, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> RoundingKind:
    """Return how the operation with that base name rounds."""
    if name == "index_put" and (True in args[3:4] or (kwargs or {}).get("accumulate")):
        return RoundingKind.REDUCTION
    if name in EXACT_NAMES:
        return RoundingKind.EXACT
    if name in _ROUNDED:
        return RoundingKind.ROUNDED
    if name in _DIVISION:
        return RoundingKind.DIVISION
    if name in _REDUCTION:
        return RoundingKind.REDUCTION
    return RoundingKind.FUNCTION
