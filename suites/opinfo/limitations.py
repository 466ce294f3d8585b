"""Known gaps of torch's own samples. Most have the cause of a case of ours, and say what that
says."""

from __future__ import annotations

from dataclasses import replace

from harness import Limitation, Status
from suites.known import as_known, variants
from suites.metal.limitations import LIMITATIONS as METAL
from suites.mlx.limitations import LIMITATIONS as MLX
from suites.models.limitations import LIMITATIONS as MODELS
from suites.ops.limitations import LIMITATIONS as OPS

_PORTABLE = "https://github.com/pytorch/executorch/blob/v1.5.1/kernels/portable/cpu"
_MLX_OPS = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/mlx/ops.py"
_ARM = "https://github.com/pytorch/executorch/tree/v1.5.1/backends/arm"
_INDUCTOR = "https://github.com/pytorch/pytorch/tree/v2.13.0/torch/_inductor"


def _of(table: str) -> str:
    """Globs over cases: operators with the numbers of their samples, separated by semicolons."""
    rows = (row.split() for row in table.split(";"))
    return "|".join(
        variants(f"opinfo/{operator}", " ".join(f"float32_{number}" for number in numbers))
        for operator, *numbers in rows
    )


def _as_ours(target: str, case: str, table: str) -> Limitation:
    return as_known(OPS, target, case, _of(table))


_NATIVE = [
    entry
    for target in ("portable:fp32", "xnnpack:fp32")
    for entry in (
        _as_ours(target, "convolution/3d", "conv3d *; conv_transpose3d *"),
        _as_ours(target, "div/floor_of_any", "div-floor_rounding 1"),
    )
]
_LEFT = "portable:*|xnnpack:*|tosa:*"
_RUNTIME = [
    Limitation(
        target=_LEFT,
        case=_of("sum 0"),
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
        case=_of("log_softmax-with_dtype *"),
        reason="Left to the runtime, in float64, which op_log_softmax.cpp does not take.",
        link=f"{_PORTABLE}/op_log_softmax.cpp",
        stage="run",
        error="failed with error 0x12",
    ),
    *(
        Limitation(
            target=target,
            case=_of(f"gather {numbers}"),
            reason="ATen takes indices of int32 and uint8 as well; check_gather_args "
            "(util/index_util.cpp) takes int64 alone.",
            link=f"{_PORTABLE}/util/index_util.cpp",
            stage="run",
            error="failed with error 0x12",
        )
        for target, numbers in [
            ("portable:*|xnnpack:*|mlx:*", "0 3"),
            ("tosa:fp", "0"),
        ]
    ),
    Limitation(
        target="portable:*|xnnpack:*",
        case=_of("cumsum 2"),
        reason="Of a scalar; check_cumsum_args (util/kernel_ops_util.cpp) has no dimension of it.",
        link=f"{_PORTABLE}/util/kernel_ops_util.cpp",
        stage="run",
        error="dim_is_valid",
    ),
]

_SCALES = "The delegate derives the scale from the sizes, and does not look at scale_factor. "
_XNNPACK = [
    _as_ours("xnnpack:fp32", "gelu/tanh", "gelu 1 3"),
    Limitation(
        target="xnnpack:*",
        case=_of("interpolate-bilinear 1"),
        reason=f"{_SCALES}Where it does not divide (4 by 1.7 is 6), ATen reads elsewhere "
        "(operators/op_static_resize_bilinear_2d.py).",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/xnnpack/operators/"
        "op_static_resize_bilinear_2d.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="xnnpack:*",
        case=_of("permute 0"),
        reason="Of a scalar: xnn_define_static_transpose refuses a permutation of no dimensions, "
        "PermuteConfig takes it.",
        link="https://github.com/google/XNNPACK/blob/master/src/subgraph/static-transpose.c",
        stage="run",
        error="Failed to create static transpose",
    ),
]

_TOSA = [
    _as_ours("tosa:fp", "amax/all",
             "amax 0 1; amin 0 1; mean 0 2 3; sum 2 3; unbind 3"),
    _as_ours("tosa:fp", "any/fp32_keepdim", "any *"),
    replace(
        _as_ours("tosa:fp", "convolution/2d_weight_is_input",
                 "conv1d *; conv2d *; conv3d *; conv_transpose2d 0 1; linear 0 1 3"),
        error="unsupported param type",
    ),
    _as_ours("tosa:fp", "logical_and/fp32", "logical_and *"),
    _as_ours("tosa:fp", "logical_not/fp32", "logical_not 1 2"),
    *(
        replace(_as_ours("tosa:fp", "logical_and/fp32", f"{operator} 1 2 3"),
                error=f"Unsupported dtype torch.float32 for {operator.upper()}")
        for operator in ("logical_or", "logical_xor")
    ),
    _as_ours("tosa:fp", "repeat/zero_times", "repeat 2"),
    _as_ours("tosa:fp", "slice_copy/to_empty", "split_with_sizes 0"),
    _as_ours("tosa:fp", "fill/from_tensor", "slice_scatter 0 2"),
    _as_ours("tosa:fp", "fill/number", "fill 0 1; full_like 0 3"),
    _as_ours("tosa:fp", "asin/2d", "asin *; acos 1 2"),
    _as_ours("tosa:fp", "atan/2d", "atan *"),
    _as_ours("tosa:fp", "atanh/near_zero", "atanh *"),
    _as_ours("tosa:fp", "log1p/3d", "log1p *"),
    _as_ours("tosa:fp", "expm1/3d", "expm1 *; celu 1"),
    _as_ours("tosa:fp", "convolution/transposed_3d", "conv_transpose3d *"),
    *(
        Limitation(
            target="tosa:fp",
            case=_of(cases),
            reason=reason,
            link=_ARM,
            stage=stage,
            error=error,
            outcome=Status.MISMATCH if stage == "compare" else Status.FAILED,
        )
        for cases, stage, error, reason in [
            ("asinh *", "compare", "elements exceed the bound",
             "DecomposeAsinhPass computes log(x + sqrt(x * x + 1)), of which little is left for "
             "negative x."),
            ("tanh *", "compare", "elements exceed the bound",
             "Arm's reference model computes TANH in float32 to an absolute error of 1e-7, which "
             "near 0 is many units of the last place."),
            ("interpolate-bilinear 1", "compare", "elements exceed the bound",
             f"{_SCALES}Where it does not divide (4 by 1.7 is 6), ATen reads elsewhere "
             "(RewriteUpsamplePass)."),
            ("log_softmax 1; softmax 2", "lower", "Unknown operator",
             "Of a scalar: DecomposeSoftmaxPass leaves an amax behind, which is no TOSA."),
            ("cumsum 2; gather 1", "lower", "integer modulo by zero",
             "Of a scalar: the pass takes a dimension modulo the rank, which is 0."),
            ("clamp 0", "lower", "Expected matching dtypes",
             "The bounds are tensors, one of them int32; ATen promotes it, no Arm pass inserts "
             "the CAST."),
            ("batch_norm 1", "lower", "data must be a sequence",
             "Weight and bias are None, of which the decomposition makes a tensor."),
            ("adaptive_avg_pool1d 1; adaptive_avg_pool2d 0 3", "lower", "not enough values",
             "An input without a batch: the pass unpacks four sizes."),
            ("avg_pool2d 2", "lower", "not enough values",
             "One number stands for both strides, of which the pass unpacks two."),
            ("native_group_norm 2 3; native_layer_norm 0 1 3", "run", "for a planned tensor of",
             "The mean and the reciprocal deviation are planned as (1, 1), and the graph returns "
             "the normalized tensor in their place."),
            ("pad-circular 0; pad-replicate_negative *", "run", "for a planned tensor of",
             "Padding by less than nothing: the graph leaves out what crops."),
        ]
    ),
]  # fmt: skip

_AXES = (
    "Of a scalar, which in ATen has a dimension 0 and -1 to reduce over; the handler passes it on, "
    "and mlx has none."
)
_PERMUTED = "unfold/im2col"
_MLX = [
    as_known(MLX, "mlx:fp32", "scatter_add/part_of_the_columns", _of("scatter_add 1 3")),
    as_known(MODELS, "mlx:fp32", "sam2/tiny", _of("interpolate-bicubic *")),
    _as_ours("mlx:fp32", "convolution/1d_unbatched",
             "conv1d 1 3; conv2d 3; conv_transpose2d 1"),
    _as_ours("mlx:fp32", _PERMUTED, "interpolate-nearest-exact *; interpolate-trilinear *"),
    replace(
        as_known(OPS, "portable:fp32", "convolution/3d", _of("conv3d *; conv_transpose3d 0 2")),
        target="mlx:*",
        reason="MLX takes no convolution of groups in three dimensions or without a batch, and "
        "check_convolution_args (kernels/portable/cpu/util/kernel_ops_util.cpp) accepts inputs of "
        "rank 3 and 4 only.",
    ),
    *(
        Limitation(
            target="mlx:*", case=_of(cases), reason=reason, link=_MLX_OPS, stage="run", error=error
        )
        for cases, error, reason in [
            ("amin 2; argmax 2; argmin 1 3; sum 0", "Invalid axis", _AXES),
            ("cumsum 2", "out of bounds for array with 0 dimensions", _AXES),
            ("log_softmax 1; softmax 2", "Received non-empty axes", _AXES),
            ("index_select 2", "out of range for 0 dimensions", _AXES),
            ("cat 3", "a dimension of size 0",
             "The concatenation of empty tensors is folded to a constant, and FullNode has no "
             "tensor without elements."),
        ]
    ),
]  # fmt: skip

_METAL = [
    as_known(METAL, "metal:fp32", "mm/plus_number", _of("addmm-decomposed 0; addmm 3")),
    as_known(METAL, "metal:fp32", "mm/second_rows_of_result",
             _of("select 1 3; split_with_sizes 1")),
    as_known(METAL, "metal:fp32", "scaled_dot_product_attention/three_dimensions",
             _of("scaled_dot_product_attention 2")),
    replace(
        as_known(MODELS, "metal:fp32", "rt_detr/night",
                 _of("full_like 1 2; log_softmax-with_dtype *; softmax-with_dtype *; "
                     "softmin-with_dtype 1 2 3")),
        reason="It is asked for in float64, which Metal does not have: MetalPartitioner takes it "
        "all the same, and Inductor's MPS code has no type of that name.",
    ),
    _as_ours(
        "metal:fp32", "mm/empty_inner_dim",
        "acos 0; acosh 2; adaptive_avg_pool1d 2; addmm-decomposed 2; addmm 0; atan2 0; "
        "batch_norm 0; cat 3; celu 2; cos 2; cosh 1; elu 2; exp 0; fill 2; flip 0 2; gather 3; "
        "group_norm 3; hardtanh 0; layer_norm 1; le 0; linear 2; log 1; log10 0; log2 1; "
        "logical_not 0; logical_or 0; logical_xor 0; lt 0; mm 1 2; native_group_norm 0 1; "
        "native_layer_norm 2; ne 2; pad-circular 2 3; pad-constant 0 3; pad-reflect 2; "
        "pixel_shuffle 0 1 2; pow 1; prod 2; reciprocal 2; remainder 2; repeat 0 1 2; rsqrt 0; "
        "sigmoid 1; silu 1; softmin-with_dtype 0; split_with_sizes 0; stack 3; unbind 0; "
        "var-unbiased 2 3",
    ),
    _as_ours("metal:fp32", "convolution/2d", "conv2d *; conv_transpose2d 0 1"),
    _as_ours("metal:fp32", "convolution/3d", "conv3d *; conv_transpose3d *"),
    _as_ours("metal:fp32", "convolution/transposed_1d",
             "conv_transpose1d *; conv_transpose2d 2 3"),
    _as_ours("metal:fp32", "scaled_dot_product_attention/heads",
             "scaled_dot_product_attention 0 1 3"),
    _as_ours("metal:fp32", "scatter_reduce/amax",
             "scatter_reduce-amax *; scatter_reduce-amin *; scatter_reduce-mean *; "
             "scatter_reduce-prod *"),
    _as_ours("metal:fp32", "sinh/2d",
             "acosh 0 1; asinh *; cosh 0 2; logical_xor 1 2 3; sinh *"),
    _as_ours("metal:fp32", "_embedding_bag/mean",
             "adaptive_avg_pool3d *; interpolate-area 1 2; cdist *; embedding_bag *; "
             "avg_pool2d 1; avg_pool3d 1; cumsum 0 1 3; grid_sample 1 3; masked_scatter *; "
             "sort 3; embedding 2"),
    replace(
        as_known(OPS, "metal:fp32", "convolution/2d",
                 _of("addmm-decomposed 1 3; addmm 1; topk 1 3")),
        reason="The operand is a transposed view, which Inductor hands on as it is; "
        "aoti_torch_mps_addmm_out and aoti_torch_mps_topk read it as if it were contiguous.",
        link="https://github.com/pytorch/executorch/tree/v1.5.1/backends/apple/metal/runtime/ops",
    ),
    Limitation(
        target="metal:*",
        case=_of("index_put 0 3"),
        reason="Inductor leaves what accumulates, or has a bool among its indices, to "
        "aoti_torch_index_put_out, which Metal's runtime does not have.",
        link="https://github.com/pytorch/executorch/tree/v1.5.1/backends/apple/metal/runtime/shims",
        stage="lower",
        error="aoti_torch_index_put_out: is not in v1.5.1 [missing]",
    ),
    Limitation(
        target="metal:*",
        case=_of("unbind 3"),
        reason="Of a vector into scalars: Inductor asks for the length of a scalar.",
        link=_INDUCTOR,
        stage="lower",
        error="len() of a 0-d tensor",
    ),
    Limitation(
        target="metal:*",
        case=_of("max_pool3d 3"),
        reason="Inductor's max_pool3d_with_indices returns positions of another layout where its "
        "input is a transposed view; on a CPU, torch.compile does, too.",
        link=f"{_INDUCTOR}/lowering.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
]  # fmt: skip

LIMITATIONS: list[Limitation] = [*_NATIVE, *_RUNTIME, *_XNNPACK, *_TOSA, *_MLX, *_METAL]
