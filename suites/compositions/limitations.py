"""Limitations of the chains that are programs of their own."""

from __future__ import annotations

from harness import Limitation, Status
from suites.compositions.pairs import PRODUCERS
from suites.cortex_m.limitations import LIMITATIONS as CORTEX_M
from suites.crossings.limitations import LIMITATIONS as CROSSINGS
from suites.known import copy_limitation, copy_to_vgf, variants
from suites.ops.limitations import LIMITATIONS as OPS
from suites.quant.limitations import LIMITATIONS as QUANT

_SOURCE = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/"
_ARM = _SOURCE + "arm/"
_CORTEX_M = _SOURCE + "cortex_m/"
_PROMOTED = (
    "Torch promotes the codes of a clamp, quotient, sigmoid or tanh to float32, and "
    "QuantizedClampActivationPass leaves out a relu or clamp whose operand's metadata is not int8: "
)
_APART = ("linear", "linear_no_bias", "softmax")
"""Producers whose programs of pairs_int8 fail on Cortex-M for another reason."""

LIMITATIONS: list[Limitation] = [
    copy_limitation(
        CROSSINGS,
        "tosa:int",
        "crossing_shared/maxpool_neg_mulitself_layer",
        "pairs_tosa_int/relu_then_neg",
    ),
    Limitation(
        target="tosa:int",
        case="pairs_tosa_int/conv2d_then_mul_number",
        reason="FoldScalarMulIntoConvPass multiplies the weights of a convolution before a product "
        "with a number in place, in the module that was exported: the quantizer changes the "
        "caller's float model. Workaround: quantize a copy, copy.deepcopy(module).",
        link=_ARM + "_passes/fold_scalar_mul_into_conv_pass.py",
        stage="quantize",
        error="changed what it was given",
    ),
    # Around a convolution Arm's passes transpose the image.
    copy_limitation(
        CROSSINGS,
        "tosa:fp",
        "crossing_elementwise/rsub_rank0_float16_number_transposed_fixed",
        "pairs_tosa/conv2d_then_number_sub|pairs_tosa_int/conv2d_then_number_sub",
        target="tosa:fp|tosa:int",
    ),
    copy_limitation(
        CROSSINGS,
        "tosa:int",
        "crossing_shared/maxpool_tanh_where_none",
        "pairs_tosa_int/sigmoid_then_where",
        error="Expected matching dtypes but got torch.int8 and torch.float32",
    ),
    copy_limitation(
        CROSSINGS,
        "tosa:int",
        "crossing_shared/cat_tanh_poolbefore_view",
        "pairs_tosa_int/sigmoid_then_avg_pool",
    ),
    Limitation(
        target="xnnpack:int8",
        case="pairs_int8/mul_then_slice",
        reason="Behind a slice the quantizer annotates the result of a pad and not its input. The "
        "delegate then has a StaticConstantPad from float32 to int8, which XNNPACK refuses. "
        "Workaround: pad before the quantized operator.",
        link=_SOURCE + "xnnpack/operators/op_static_constant_pad.py",
        stage="run",
        error="Failed to create StaticConstantPad",
    ),
    copy_limitation(
        QUANT, "xnnpack:int8_per_tensor", "int_pool/max_then_clamp", "sums_int8/max_pool_then_*"
    ),
    # Programs of pairs_int8 have a hardswish, which is fused with a linear layer only. The other
    # chains are in pairs_cortex_m.
    copy_limitation(
        OPS,
        "cortex_m:int8",
        "hardswish/2d",
        variants("pairs_int8", " ".join(name for name in PRODUCERS if name not in _APART)),
    ),
    Limitation(
        target="cortex_m:*",
        case="pairs_int8/linear|pairs_int8/linear_no_bias|pairs_cortex_m/mul_then_mean",
        reason="DecomposeMeanPass makes the mean an average pooling, whose result is "
        "channels-last. op_sub.cpp requires one dim order for all operands.",
        link=_CORTEX_M + "passes/decompose_mean_pass.py",
        stage="run",
        error="dim order",
    ),
    # The result of a pooling is channels-last.
    copy_limitation(
        OPS,
        "cortex_m:int8",
        "prelu/per_channel",
        "pairs_cortex_m/avg_pool_then_mul_number|pairs_cortex_m/max_pool_then_number_sub",
    ),
    copy_limitation(
        OPS, "cortex_m:int8", "slice_copy/channels_last", "pairs_cortex_m/avg_pool_then_join_halves"
    ),
    copy_limitation(
        OPS, "cortex_m:int8", "pixel_shuffle/factor3", "pairs_cortex_m/max_pool_then_view"
    ),
    # An average pooling with padding becomes a pad and a pooling.
    copy_limitation(
        CORTEX_M,
        "cortex_m:int8",
        "cortex_m/pad_behind_pool",
        "pairs_cortex_m/avg_pool_then_avg_pool",
        error="shape (1, 6, 4, 6), expected (1, 4, 6, 6)",
    ),
    copy_limitation(
        OPS, "cortex_m:int8", "where/computed_condition", "pairs_cortex_m/mul_then_where"
    ),
    copy_limitation(
        QUANT, "cortex_m:int8", "int_linear/two_users", "pairs_cortex_m/linear_then_residual"
    ),
    Limitation(
        target="cortex_m:*",
        case="pairs_cortex_m/clamp_then_relu",
        reason=f"{_PROMOTED}the relu sets codes below 0 to 0. Workaround: one clamp.",
        link=_CORTEX_M + "passes/quantized_clamp_activation_pass.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="cortex_m:*",
        case="pairs_cortex_m/clamp_then_clamp",
        reason=f"{_PROMOTED}the second clamp returns float32, which the program dequantizes. "
        "Workaround: one clamp.",
        link=_CORTEX_M + "passes/quantized_clamp_activation_pass.py",
        stage="run",
        error="Expecting input to have dtype: torch.int8, but got torch.float32",
    ),
    Limitation(
        target="cortex_m:*",
        case="pairs_int8/softmax|pairs_cortex_m/softmax_then_maximum",
        reason="SharedQspecQuantizer gives the operands of a maximum one grid, here the fixed one "
        "of the softmax, from 0 to 1: negative values of the other operand are clipped. "
        "Workaround: `x + torch.relu(y - x)`.",
        link=_SOURCE + "arm/quantizer/arm_quantizer_utils.py",
        stage="quantize",
        error="the module was quantized wrongly: softmax",
    ),
]
LIMITATIONS += copy_to_vgf(LIMITATIONS)
