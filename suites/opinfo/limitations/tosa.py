"""Limitations of Arm's passes and of TOSA's reference model."""

from __future__ import annotations

from dataclasses import replace

from harness import Limitation, Status
from suites.opinfo.limitations.tables import SCALES, ops_limitation, sample_globs

_ARM = "https://github.com/pytorch/executorch/tree/v1.5.1/backends/arm"

TOSA: list[Limitation] = [
    ops_limitation("tosa:fp", "amax/all",
             "amax 0 1; amin 0 1; mean 0 2 3; sum 2 3; unbind 3"),
    ops_limitation("tosa:fp", "any/fp32_keepdim", "any *"),
    replace(
        ops_limitation("tosa:fp", "convolution/2d_weight_is_input",
                 "conv1d *; conv2d *; conv3d *; conv_transpose2d 0 1; linear 0 1 3"),
        error="unsupported param type",
    ),
    ops_limitation("tosa:fp", "logical_and/fp32", "logical_and *"),
    ops_limitation("tosa:fp", "logical_not/fp32", "logical_not 1 2"),
    *(
        replace(ops_limitation("tosa:fp", "logical_and/fp32", f"{operator} 1 2 3"),
                error=f"Unsupported dtype torch.float32 for {operator.upper()}")
        for operator in ("logical_or", "logical_xor")
    ),
    ops_limitation("tosa:fp", "repeat/zero_times", "repeat 2"),
    ops_limitation("tosa:fp", "slice_copy/to_empty", "split_with_sizes 0"),
    ops_limitation("tosa:fp", "fill/from_tensor", "slice_scatter 0 2"),
    ops_limitation("tosa:fp", "fill/number", "fill 0 1; full_like 0 3"),
    ops_limitation("tosa:fp", "asin/2d", "asin *; acos 1 2"),
    ops_limitation("tosa:fp", "atan/2d", "atan *"),
    ops_limitation("tosa:fp", "atanh/near_zero", "atanh *"),
    ops_limitation("tosa:fp", "log1p/3d", "log1p *"),
    ops_limitation("tosa:fp", "expm1/3d", "expm1 *; celu 1"),
    ops_limitation("tosa:fp", "convolution/transposed_3d", "conv_transpose3d *"),
    *(
        Limitation(
            target="tosa:fp",
            case=sample_globs(cases),
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
             f"{SCALES}Where it does not divide (4 by 1.7 is 6), ATen reads elsewhere "
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
