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
             "DecomposeAsinhPass computes log(x + sqrt(x * x + 1)), which cancels for negative x. "
             "Workaround: `x.sign() * x.abs().asinh()`."),
            ("tanh *", "compare", "elements exceed the bound",
             "Arm's reference model computes TANH in float32 with an absolute error of 1e-7, "
             "which is many units in the last place for inputs near 0."),
            ("interpolate-bilinear 1", "compare", "elements exceed the bound",
             f"{SCALES}ATen reads other positions where the factor does not give whole sizes, for "
             "example 4 by 1.7 (RewriteUpsamplePass). Workaround: `recompute_scale_factor=True`, "
             "or a size in place of the factor."),
            ("log_softmax 1; softmax 2", "lower", "Unknown operator",
             "For a 0-D tensor DecomposeSoftmaxPass leaves an amax in the graph, which is not a "
             "TOSA operator. Workaround: `x.reshape(1)` before it."),
            ("cumsum 2; gather 1", "lower", "integer modulo by zero",
             "The pass computes the dimension modulo the rank, which is 0 for a 0-D tensor. "
             "Workaround: `x.reshape(1)` before it."),
            ("clamp 0", "lower", "Expected matching dtypes",
             "ATen promotes tensor bounds of different dtypes, here one of int32. No Arm pass "
             "inserts the CAST. Workaround: convert the bounds, `.to(x.dtype)`."),
            ("batch_norm 1", "lower", "data must be a sequence",
             "FuseBatchNorm2dPass reads mean and variance as buffers of the module. Here they are "
             "inputs or computed, and the pass raises TypeError. Workaround: make them buffers of "
             "the module."),
            ("adaptive_avg_pool1d 1; adaptive_avg_pool2d 0 3", "lower", "not enough values",
             "The pass unpacks four sizes, which an input without a batch dimension does not "
             "have. Workaround: add a dimension, `x[None]`."),
            ("avg_pool2d 2", "lower", "not enough values",
             "The pass unpacks two strides, but ATen also accepts one number for both. "
             "Workaround: pass two."),
            ("native_group_norm 2 3; native_layer_norm 0 1 3", "run", "for a planned tensor of",
             "The program plans the mean and the reciprocal standard deviation with shape (1, 1), "
             "and the delegate returns the normalized tensor in their place."),
            ("pad-circular 0; pad-replicate_negative *", "run", "for a planned tensor of",
             "A negative padding crops, and the graph omits the nodes that crop. Workaround: "
             "slice the tensor instead."),
        ]
    ),
]  # fmt: skip
