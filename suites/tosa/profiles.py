"""Cases of other suites on the TOSA recipes that no other suite selects.

These recipes share the partitioner, the quantizer and the passes of ``tosa:fp`` and ``tosa:int``.
A few cases of each kind show what a further specification changes: accumulators of 48 bits, tables
of 513 entries, sums of bfloat16, the operators of the Ethos-U55, and another version.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from harness import Case
from suites.ops import (
    activation,
    binary,
    conv,
    index,
    matmul,
    norm,
    pool,
    reduce,
    shape,
    unary,
)
from suites.quant import conv as int_conv, elementwise, joined, linear, pool as int_pool
from suites.quick import cases as quick

_KNOWN: dict[str, Case] = {
    case.name: case
    for case in chain(
        *(
            module.CASES
            for module in (
                activation, binary, conv, index, matmul, norm, pool, reduce, shape, unary,
                int_conv, elementwise, joined, linear, int_pool, quick,
            )
        )
    )
}  # fmt: skip

_FLOAT = "tosa:bf16|tosa:fp_1_1"
_INTEGER = "tosa:int16|tosa:int_u55"
_EVERY_INTEGER = f"{_INTEGER}|tosa:int_1_1"

# The first cases of each entry are in the plain run as well.
_SELECTED: tuple[tuple[str, str, str], ...] = (
    (
        _FLOAT,
        "linear/bias convolution/2d _softmax/last_dim",
        """
        linear/3d convolution/1d convolution/2d_depthwise scaled_dot_product_attention/plain
        scaled_dot_product_attention/causal embedding/2d_tokens native_layer_norm/last_dim
        rms_norm/weight native_group_norm/groups bmm/long_inner_dim avg_pool2d/plain
        max_pool2d_with_indices/plain mean/last_dim sum/long_axis var/unbiased gelu/exact
        gelu/tanh sigmoid/2d tanh/2d silu/2d erf/2d exp/2d log/2d sin/2d rsqrt/2d div/number
        div/same_shape mul/number pow/tensor_number cat/dim0 slice_copy/middle permute_copy/3d
        upsample_bilinear2d/double quick/classifier quick/state
        """,
    ),
    (
        _EVERY_INTEGER,
        "int_linear/2d int_conv2d/bias int_add/same_shape",
        """
        int_softmax/last int_matmul/2d int_pool/avg int_sigmoid/randn int_island/embedding
        int_model/mlp
        """,
    ),
    (
        _INTEGER,
        "",
        """
        int_linear/uneven_rows int_linear/long_sum int_linear/relu int_conv2d/stride
        int_conv2d/padding_of_positive_values int_conv2d/depthwise int_conv2d/batch_norm_relu
        int_conv1d/bias int_add/scales_far_apart int_mul/same_shape int_sub/same_shape
        int_sigmoid/saturates int_tanh/randn int_exp/randn int_layer_norm/affine
        int_matmul/batched int_pool/max int_mean/last int_cat/two int_model/attention
        int_model/classifier div/number
        """,
    ),
)


def _select(targets: str, name: str, *, plain: bool) -> Case:
    return replace(
        _KNOWN[name],
        name=f"tosa_profiles/{name}",
        targets=targets,
        plain_targets=targets if plain else "",
    )


CASES: list[Case] = [
    _select(targets, name, plain=plain)
    for targets, first, further in _SELECTED
    for names, plain in ((first, True), (further, False))
    for name in names.split()
]
