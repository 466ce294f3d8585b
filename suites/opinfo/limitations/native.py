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
        reason="The sum of a scalar (a 0-D tensor) over dimension -1 aborts the process: "
        "sum_dim_out (op_sum.cpp) reads the size of that dimension without checking the rank. "
        "Workaround: leave the sum out where the rank is 0.",
        link=f"{_PORTABLE}/op_sum.cpp",
        stage="run",
        error="Aborted",
        outcome=Status.CRASHED,
    ),
    Limitation(
        target=f"{_LEFT}|mlx:*",
        case=sample_globs("log_softmax-with_dtype *"),
        reason="The log_softmax runs outside the delegate, in float64, which op_log_softmax.cpp "
        "does not support. Workaround: request float32.",
        link=f"{_PORTABLE}/op_log_softmax.cpp",
        stage="run",
        error="failed with error 0x12",
    ),
    *(
        Limitation(
            target=target,
            case=sample_globs(f"gather {numbers}"),
            reason="ATen accepts int32 and uint8 indices; check_gather_args (util/index_util.cpp) "
            "requires int64. Workaround: `index.to(torch.int64)`.",
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
        reason="check_cumsum_args (util/kernel_ops_util.cpp) refuses every dimension of a 0-D "
        "tensor; ATen accepts 0 and -1. Workaround: leave the cumsum out where the rank is 0.",
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
        reason=f"{SCALES}ATen reads other positions where the factor does not give whole sizes, "
        "for example 4 by 1.7 (operators/op_static_resize_bilinear_2d.py). Workaround: "
        "`recompute_scale_factor=True`, or a size in place of the factor.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/xnnpack/operators/"
        "op_static_resize_bilinear_2d.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="xnnpack:*",
        case=sample_globs("permute 0"),
        reason="PermuteConfig accepts the permute of a 0-D tensor, and "
        "xnn_define_static_transpose refuses a permutation without dimensions: the program does "
        "not load. Workaround: leave the permute out where the rank is 0.",
        link="https://github.com/google/XNNPACK/blob/master/src/subgraph/static-transpose.c",
        stage="run",
        error="Failed to create static transpose",
    ),
]

NATIVE: list[Limitation] = [*_OURS, *_RUNTIME, *_XNNPACK]
