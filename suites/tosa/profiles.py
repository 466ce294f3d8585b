"""Cases of other suites on the TOSA recipes that no other suite selects.

These recipes share the partitioner, the quantizer and the passes of ``tosa:fp`` and ``tosa:int``.
A few cases of each kind show what a further specification changes: accumulators of 48 bits, tables
of 513 entries, sums of bfloat16, the operators of the Ethos-U55, and another version.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import torch

from harness import Case
from suites.build import op, uniform
from suites.ops import activation, binary, conv, index, matmul, norm, reduce
from suites.quant import conv as int_conv, elementwise, joined, linear, pool as int_pool
from suites.quant.only import outlier
from suites.quick import cases as quick

_KNOWN: dict[str, Case] = {
    case.name: case
    for case in chain(
        *(
            module.CASES
            for module in (
                activation, binary, conv, index, matmul, norm, reduce,
                int_conv, elementwise, joined, linear, int_pool, quick,
            )
        )
    )
}  # fmt: skip

_FLOAT = "tosa:bf16|tosa:fp_1_1"
_INTEGER = "tosa:int16|tosa:int_u55"
_EVERY_INTEGER = f"{_INTEGER}|tosa:int_1_1"

# Targets, the cases of the plain run, and the cases of the nightly run.
_SELECTED: tuple[tuple[str, str, str], ...] = (
    (
        _FLOAT,
        "linear/bias convolution/2d _softmax/last_dim",
        """
        embedding/2d_tokens scaled_dot_product_attention/plain native_layer_norm/last_dim
        quick/classifier
        """,
    ),
    (
        "tosa:bf16",
        "",
        """
        linear/3d convolution/1d convolution/2d_depthwise gelu/exact rms_norm/weight mean/last_dim
        sum/long_axis
        """,
    ),
    (
        _EVERY_INTEGER,
        "int_linear/2d int_conv2d/bias int_add/same_shape",
        "int_softmax/last int_island/embedding int_model/mlp",
    ),
    (
        _INTEGER,
        "",
        """
        div/number int_model/attention int_layer_norm/affine int_sigmoid/randn
        int_tanh/randn int_mul/same_shape int_matmul/2d int_pool/avg
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


# What 16 bits promise and 8 do not: small values beside a wide grid, and few large values.
_SIXTEEN_BITS: list[Case] = [
    replace(case, targets="tosa:int16", tags=case.tags | {"int"})
    for case in (
        op("int16_rsqrt/small_variances", torch.rsqrt, uniform(0.002, 0.03, 3, 40)),
        op("int16_add/one_outlier", torch.add, outlier(300, 1000), outlier(300, 1000)),
        # A table's last segment ends one code beyond the range.
        op("int16_exp/near_the_largest", torch.exp, uniform(3.9, 4.0, 3, 40)),
    )
]

CASES: list[Case] = [
    *_SIXTEEN_BITS,
    *(
        _select(targets, name, plain=plain)
        for targets, first, further in _SELECTED
        for names, plain in ((first, True), (further, False))
        for name in names.split()
    ),
]
