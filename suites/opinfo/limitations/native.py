"""Limitations of the runtime's own kernels and of XNNPACK."""

from __future__ import annotations

from harness import Limitation, Status
from suites.opinfo.limitations.tables import SCALES, ops_limitation, sample_globs

_PORTABLE = "https://github.com/pytorch/executorch/blob/v1.5.1/kernels/portable/cpu"

_OURS = [
    entry
    for target in ("portable:fp32", "xnnpack:fp32")
    for entry in (
        ops_limitation(target, "convolution/3d", "conv3d *; conv_transpose3d *"),
        ops_limitation(target, "div/floor_of_any", "div-floor_rounding 1"),
        ops_limitation(target, "remainder/int64", "remainder int32"),
        ops_limitation(target, "constant_pad_nd/negative_crops", "pad-constant float16"),
    )
]
_LEFT = "portable:*|xnnpack:*|tosa:*"
_RUNTIME = [
    Limitation(
        target=_LEFT,
        case=sample_globs("sum 0"),
        reason="The sum of a scalar over its one dimension, -1, aborts the process: "
        "sum_dim_out (op_sum.cpp) asks for the size of that dimension, which a tensor of rank 0 "
        "has not.",
        link=f"{_PORTABLE}/op_sum.cpp",
        stage="run",
        error="Aborted",
        outcome=Status.CRASHED,
    ),
    Limitation(
        target=f"{_LEFT}|mlx:*",
        case=sample_globs("log_softmax-with_dtype *"),
        reason="Left to the runtime, in float64, which op_log_softmax.cpp does not take.",
        link=f"{_PORTABLE}/op_log_softmax.cpp",
        stage="run",
        error="failed with error 0x12",
    ),
    *(
        Limitation(
            target=target,
            case=sample_globs(f"gather {numbers}"),
            reason="ATen takes indices of int32 and uint8 as well; check_gather_args "
            "(util/index_util.cpp) takes int64 alone.",
            link=f"{_PORTABLE}/util/index_util.cpp",
            stage="run",
            error="failed with error 0x12",
        )
        for target, numbers in [
            ("portable:*|xnnpack:*|mlx:*", "0 3"),
            ("portable:*|xnnpack:*", "bfloat16 float16"),
            ("tosa:fp", "0"),
        ]
    ),
    Limitation(
        target="portable:*|xnnpack:*",
        case=sample_globs("cumsum 2 int32 int64"),
        reason="Of a scalar; check_cumsum_args (util/kernel_ops_util.cpp) has no dimension of it.",
        link=f"{_PORTABLE}/util/kernel_ops_util.cpp",
        stage="run",
        error="dim_is_valid",
    ),
]

_XNNPACK = [
    ops_limitation("xnnpack:fp32", "max_pool2d_with_indices/plain", "max_pool2d 0"),
    ops_limitation("xnnpack:fp32", "gelu/tanh", "gelu 1 3"),
    Limitation(
        target="xnnpack:*",
        case=sample_globs("interpolate-bilinear 1"),
        reason=f"{SCALES}Where it does not divide (4 by 1.7 is 6), ATen reads elsewhere "
        "(operators/op_static_resize_bilinear_2d.py).",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/xnnpack/operators/"
        "op_static_resize_bilinear_2d.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="xnnpack:*",
        case=sample_globs("permute 0"),
        reason="Of a scalar: xnn_define_static_transpose refuses a permutation of no dimensions, "
        "PermuteConfig takes it.",
        link="https://github.com/google/XNNPACK/blob/master/src/subgraph/static-transpose.c",
        stage="run",
        error="Failed to create static transpose",
    ),
]

NATIVE: list[Limitation] = [*_OURS, *_RUNTIME, *_XNNPACK]
