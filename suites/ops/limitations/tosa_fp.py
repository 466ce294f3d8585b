"""Limitations in the Arm TOSA backend that show in the floating-point profile."""

from __future__ import annotations

from harness import Limitation, Status

_ARM = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/arm/"
_PULL = "https://github.com/pytorch/executorch/pull/"
_EXCEEDS = "elements exceed the bound"

_NO_INTEGERS = (
    "Profile PRO-FP has this operator for floating point only. TOSA_PRO_FP_SupportList does not "
    "check dtypes, so integers are delegated and lowering fails instead of leaving the node to "
    "the CPU, as 1.5.0 does for comparisons. Workaround: convert the operand to float32 and the "
    "result back."
)
_BOOL_ONLY = (
    "TOSA's logical operators and REDUCE_ANY support bool only. TOSA_PRO_FP_SupportList does not "
    "check dtypes, and no pass casts the operands to bool. Workaround: convert the operands, `x "
    "!= 0`."
)

TOSA_FP: list[Limitation] = [
    # Integers in a floating-point profile.
    Limitation(
        target="tosa:fp",
        case="abs/int32|clamp/int32|maximum/int32|neg/int8|sign/int32",
        reason=_NO_INTEGERS,
        link=_PULL + "22558",
        stage="lower",
        error="TOSA spec TOSA-1.0+FP doesn't support",
    ),
    Limitation(
        target="tosa:fp",
        case="amin/int32",
        reason=_NO_INTEGERS,
        link=_PULL + "22558",
        stage="lower",
        error="TOSA spec TOSA-1.0+FP doesn't support",
        since="1.5.0",
    ),
    Limitation(
        target="tosa:fp",
        case="relu/int32",
        reason=_NO_INTEGERS,
        link=_PULL + "22558",
        stage="lower",
        error="Unsupported dtype torch.int32 for CLAMP",
    ),
    Limitation(
        target="tosa:fp",
        case="constant_pad_nd/int32",
        reason=_NO_INTEGERS,
        link=_PULL + "22558",
        stage="lower",
        error="Unsupported dtype torch.int32 for PAD",
    ),
    # Conversions that no pass inserts.
    Limitation(
        target="tosa:fp",
        case="logical_and/fp32",
        reason=_BOOL_ONLY,
        link=_ARM + "operator_support/tosa_profile_supported_op_lists.py",
        stage="lower",
        error="Unsupported dtype torch.float32 for LOGICAL_AND",
    ),
    Limitation(
        target="tosa:fp",
        case="logical_not/fp32",
        reason=_BOOL_ONLY,
        link=_ARM + "operator_support/tosa_profile_supported_op_lists.py",
        stage="lower",
        error="LOGICAL_NOT requires bool inputs but got torch.float32",
    ),
    Limitation(
        target="tosa:fp",
        case="any/fp32_keepdim",
        reason=_BOOL_ONLY,
        link=_ARM + "operator_support/tosa_profile_supported_op_lists.py",
        stage="lower",
        error="REDUCE_ANY requires bool input, got torch.float32",
    ),
    Limitation(
        target="tosa:fp",
        case="sigmoid/int32_promotes|sqrt/int32_promotes",
        reason="ATen promotes the integer operand of a floating-point function. No Arm pass "
        "inserts the CAST to fp32 that PRO-FP has, and the partitioner does not check the dtype. "
        "Workaround: `x.to(torch.float32)` before it.",
        link=_ARM + "operator_support/tosa_profile_supported_op_lists.py",
        stage="lower",
        error="Unsupported dtype torch.int32 for",
    ),
    Limitation(
        target="tosa:fp",
        case="cat/promotes",
        reason="aten.cat promotes int32 to float32. MatchArgDtypePass does not handle aten.cat, "
        "so CONCAT gets tensors of two dtypes. Workaround: convert the integers first.",
        link=_ARM + "_passes/match_arg_dtype_pass.py",
        stage="lower",
        error="Unsupported dtype torch.int32 for CONCAT",
    ),
    Limitation(
        target="tosa:fp",
        case="sum/out_dtype",
        reason="aten_to_tosa_reduction.py drops the dtype argument of aten.sum: the delegate "
        "returns float16 for a tensor that the program plans as float32. Workaround: convert the "
        "operand, `x.to(torch.float32).sum(dim)`.",
        link=_ARM + "_passes/aten_to_tosa_reduction.py",
        stage="run",
        error="bytes float16(3,) for a planned tensor of 12 bytes torch.float32(3,)",
    ),
    Limitation(
        target="tosa:fp",
        case="_to_copy/fp32_to_int8",
        reason="TOSA's CAST rounds to nearest, ATen truncates. DecorateFp32toInt32CastingPass "
        "inserts floor and ceil before casts from fp32 to int32, but not to int8 or int16. "
        "Workaround: `x.trunc()` before the cast.",
        link=_ARM + "_passes/decorate_fp32_to_int32_casting_pass.py",
        stage="compare",
        error=_EXCEEDS,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp",
        case="permute_copy/large_int32|cat/large_int32",
        reason="InsertDataLayoutCastsPass converts int32 to float32 and back around operators that "
        "move data, which rounds values beyond 2**24 (docs/findings/arm_large_integers.py). "
        "Workaround: `x.to(torch.int64)`, which stays on the CPU.",
        link=_ARM + "_passes/insert_data_layout_casts_pass.py",
        stage="compare",
        error=_EXCEEDS,
        outcome=Status.MISMATCH,
    ),
    # Shapes.
    Limitation(
        target="tosa:fp",
        case="_native_batch_norm_legit_no_training/1d|_native_batch_norm_legit_no_training/3d"
        "|_native_batch_norm_legit_no_training/beside_a_reader|norm_behind/linear_no_bias"
        "|norm_written/linear_bias|norm_behind/linear_twice",
        reason="FuseBatchNorm2dPass inserts a convolution for the batch norm to be fused with: a "
        "1-D one for inputs of rank 3, otherwise a 2-D one, which does not accept inputs of rank "
        "2 and 5.",
        link=_ARM + "_passes/fuse_batch_norm2d_pass.py",
        stage="lower",
        error="Expected 4-dimensional input for 4-dimensional weight",
    ),
    Limitation(
        target="tosa:fp",
        case="norm_behind/conv2d_weight_is_input",
        reason="FuseBatchNorm2dPass reads the weight of the convolution as a parameter of the "
        "program, and raises TypeError for a weight that is an input.",
        link=_ARM + "_passes/fuse_batch_norm2d_pass.py",
        stage="lower",
        error="data must be a sequence",
    ),
    Limitation(
        target="tosa:fp",
        case="norm_given/*_mean|norm_given/*_var|norm_written/*_mean",
        reason="FuseBatchNorm2dPass reads mean and variance as buffers of the delegate, and raises "
        "TypeError for an input and for a buffer that the program writes. Workaround: buffers that "
        "nothing writes.",
        link=_ARM + "_passes/fuse_batch_norm2d_pass.py",
        stage="lower",
        error="data must be a sequence",
    ),
    *(
        Limitation(
            target="tosa:fp",
            case=case,
            reason="FuseBatchNorm2dPass takes a weight or bias that is no parameter for none at "
            "all (get_param returns None), and cannot replace an input. Workaround: multiply and "
            "add behind `batch_norm(x, mean, variance)`.",
            link=_ARM + "_passes/fuse_batch_norm2d_pass.py",
            stage="lower",
            error=error,
        )
        for case, error in (
            ("norm_given/linear_weight|norm_given/alone_weight", "Failed to insert"),
            ("norm_given/conv2d_weight|norm_given/*_bias", "Cannot delete input node"),
        )
    ),
    Limitation(
        target="tosa:fp",
        case="norm_behind/conv2d_frozen|norm_behind/nothing_frozen|norm_written/*_bias"
        "|norm_behind/conv2d_bias_is_buffer",
        reason="FuseBatchNorm2dPass takes a weight or bias that is a buffer for none at all "
        "(get_param returns None), also the bias of the convolution: it computes with ones and "
        "zeros (docs/findings/arm_frozen_norm.py). Workaround: parameters without gradients.",
        link=_ARM + "_passes/fuse_batch_norm2d_pass.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp",
        case="linear/bias_matrix|linear/bias_of_one",
        reason="DecomposeLinearPass makes a convolution with the bias of the layer, and a "
        "convolution takes one value per channel only. Workaround: "
        "`torch.nn.functional.linear(x, self.weight) + self.bias`.",
        link=_ARM + "_passes/decompose_linear_pass.py",
        stage="lower",
        error="expected bias to be 1-dimensional",
    ),
    Limitation(
        target="tosa:fp",
        case="norm_behind/conv2d_twice",
        reason="FuseBatchNorm2dPass names the weight that it computes after the layer's weight, "
        "and create_constant_placeholder (backends/transforms/utils.py) returns the one that has "
        "the name already: a layer with two batch norms gets the weights of the first for both "
        "(docs/findings/xnnpack_two_norms_of_one_layer.py). Workaround: a copy of the layer for "
        "each norm.",
        link=_ARM + "_passes/fuse_batch_norm2d_pass.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp",
        case="convolution/2d_two_scales",
        reason="FoldScalarMulIntoConvPass names the weight that it scales after the layer's, and "
        "create_constant_placeholder (backends/transforms/utils.py) returns the one that has the "
        "name already: each use of the layer gets the factor of the first "
        "(docs/findings/arm_scaled_convolution_twice.py). Workaround: "
        "`self.layer(y).clamp(-1e30, 1e30) * 2.0`.",
        link=_ARM + "_passes/fold_scalar_mul_into_conv_pass.py",
        stage="compare",
        error="looks scaled by 0.25",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp",
        case="norm_behind/norm",
        reason="FuseBatchNorm2dPass replaces a batch norm by a convolution without a value, and "
        "reads the value of the node before the next batch norm. Workaround: fold one into the "
        "other before export.",
        link=_ARM + "_passes/fuse_batch_norm2d_pass.py",
        stage="lower",
        error="KeyError: 'val'",
    ),
    # Arguments that passes do not read.
    Limitation(
        target="tosa:fp",
        case="full_like/to_int32",
        reason="ConvertFullLikeToFullPass gives the result the dtype of the input and does not "
        "read the argument dtype (docs/findings/arm_full_like_dtype.py). Workaround: "
        "`torch.full(x.shape, 2, dtype=torch.int32)`.",
        link=_ARM + "_passes/convert_full_like_to_full_pass.py",
        stage="compare",
        error=_EXCEEDS,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp",
        case="amax/empty_dims_keepdim",
        reason="An empty list of dimensions means all of them to ATen, and ConvertMinMaxPass "
        "reduces none: the maximum is the input (docs/findings/arm_amax_of_all.py). Workaround: "
        "`x.amax(tuple(range(x.dim())), keepdim=True)`.",
        link=_ARM + "_passes/convert_minmax_pass.py",
        stage="compare",
        error=_EXCEEDS,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp",
        case="addmm/beta_zero_ignores_nan",
        reason="DecomposeAddmmPass multiplies the bias by beta, also by 0, and 0 * NaN is NaN "
        "(docs/findings/arm_addmm_beta_zero.py). Workaround: `torch.mm(x, y)`.",
        link=_ARM + "_passes/decompose_addmm_pass.py",
        stage="compare",
        error="got nan",
        outcome=Status.MISMATCH,
    ),
    # Approximations that are too coarse for fp32.
    Limitation(
        target="tosa:fp",
        case="asin/2d|acos/2d",
        reason="DecomposeAsinAndAcosPass has rational coefficients for x*x but passes abs(x) "
        "below 0.5, and _build_polynomial squares the variable at each term (powers 1, 2, 4, 8): "
        "the error is 1.3e-3.",
        link=_ARM + "_passes/decompose_asin_and_acos_pass.py",
        stage="compare",
        error=_EXCEEDS,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp",
        case="atan/2d",
        reason="DecomposeAtanPass uses a rational approximation with five coefficients, whose "
        "minimax error on [-1, 1] is 1.3e-4.",
        link=_ARM + "_passes/decompose_atan_pass.py",
        stage="compare",
        error=_EXCEEDS,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp",
        case="elu/default|elu/alpha|elu/two_of_one_tensor|celu/alpha|selu/2d|expm1/3d",
        reason="DecomposeExpm1Pass (also used for ELU, CELU and SELU) uses four terms of the "
        "Taylor series up to abs(x) = 0.35, where the fifth term is 4.4e-5.",
        link=_PULL + "13274",
        stage="compare",
        error=_EXCEEDS,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp",
        case="log1p/3d",
        reason="DecomposeLog1pPass selects the logarithm for x > 1e-3 instead of abs(x) > 1e-3: "
        "every negative x gets six terms of the Taylor series, whose error is 0.38 at -0.9. "
        "Workaround: `torch.log(1 + x)` where x is not near zero.",
        link=_PULL + "16318",
        stage="compare",
        error=_EXCEEDS,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp",
        case="div/floor_int32_exact",
        reason="DecomposeDivTensorModePass divides integers in floating point, as a reciprocal "
        "and a product: 91 / -7 is just below -13 and becomes -14.",
        link=_ARM + "_passes/decompose_div_tensor_mode.py",
        stage="compare",
        error=_EXCEEDS,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp",
        case="sinh/near_zero",
        reason="DecomposeSinhPass computes (exp(x) - exp(-x)) / 2, which cancels near 0: the "
        "absolute error is about 4e-8 however small the result.",
        link=_ARM + "_passes/decompose_sinh_pass.py",
        stage="compare",
        error=_EXCEEDS,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp",
        case="atanh/near_zero",
        reason="DecomposeAtanhPass computes log((1 + x) / (1 - x)) / 2. The quotient is rounded "
        "near 1, so the absolute error is about 5e-8 however small x is.",
        link=_ARM + "_passes/decompose_atanh_pass.py",
        stage="compare",
        error=_EXCEEDS,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp",
        case="round/halves_to_even",
        reason="DecomposeRoundPass computes floor(x + 0.5) or ceil(x - 0.5), which rounds halves "
        "away from zero; torch.round rounds them to even. Fixed upstream after 1.5.1.",
        link=_PULL + "21065",
        stage="compare",
        error=_EXCEEDS,
        outcome=Status.MISMATCH,
    ),
    # Infinities and other special values.
    Limitation(
        target="tosa:fp",
        case="_log_softmax/large_logits",
        reason="DecomposeSoftmaxPass computes log(softmax(x)): where the softmax underflows, the "
        "result is -inf instead of x - max - log(sum). Workaround: `x - x.logsumexp(dim, "
        "keepdim=True)`.",
        link=_ARM + "_passes/decompose_softmax_pass.py",
        stage="compare",
        error=_EXCEEDS,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp",
        case="relu/inf_and_nan",
        reason="rewrite_clamp replaces a missing bound with torch.finfo's max instead of "
        "infinity, so relu(inf) is 3.4e38.",
        link=_ARM + "_passes/aten_to_tosa_activation_functions.py",
        stage="compare",
        error=_EXCEEDS,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp",
        case="atan/saturated",
        reason="DecomposeAtanPass computes the constant pi/2 as 0 * x + pi/2, which is NaN for "
        "infinite x.",
        link=_ARM + "_passes/decompose_atan_pass.py",
        stage="compare",
        error=_EXCEEDS,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp",
        case="sign/infinite",
        reason="DecomposeSignPass computes zeros as x * 0.0, and ones as x * 0.0 + 1.0: NaN for "
        "infinite x (docs/findings/arm_sign_of_infinity.py). Workaround: `(x > 0).float() - (x < "
        "0).float()`.",
        link=_ARM + "_passes/decompose_sign_pass.py",
        stage="compare",
        error=_EXCEEDS,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp",
        case="pow/zero_exponent",
        reason="DecomposeIntPowPass computes x ** 0 as (x - x) + 1, which is NaN for infinite x. "
        "Workaround: `torch.ones_like(x)`.",
        link=_ARM + "_passes/decompose_int_pow_pass.py",
        stage="compare",
        error=_EXCEEDS,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp",
        case="sqrt/special_values",
        reason="DecomposeSqrtPass turns sqrt(x) into POW(x, 0.5), and TOSA leaves POW of an "
        "infinity unpredictable. The Arm runner asserts a predictable status as well.",
        link=_ARM + "_passes/decompose_sqrt_pass.py",
        stage="run",
        error="the reference model ended with GraphStatus.TOSA_UNPREDICTABLE",
    ),
]
