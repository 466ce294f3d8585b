"""Limitations of crossings of operators."""

from __future__ import annotations

from harness import Limitation, Status
from suites.known import copy_limitation
from suites.opinfo.limitations import LIMITATIONS as OPINFO
from suites.ops.limitations import LIMITATIONS as OPS
from suites.overloads.limitations import LIMITATIONS as OVERLOADS
from suites.quant.limitations import LIMITATIONS as QUANT

_SOURCE = "https://github.com/pytorch/executorch/blob/v1.5.1/"
_ARM = _SOURCE + "backends/arm/"
_CORTEX_M = _SOURCE + "backends/cortex_m/"
_XNNPACK = _SOURCE + "backends/xnnpack/"
_KERNELS = _SOURCE + "kernels/portable/cpu/"
_PASSES = _ARM + "_passes/"
_WRONG = "elements exceed the bound"

_INDEX = [
    Limitation(
        case="crossing_index/accumulate_broadcast_*",
        target="tosa:fp",
        reason="IndexPutSupported accepts index tensors of any rank. RewriteIndexPutPass takes the "
        "first size of their broadcast shape as the number of writes, and then reshapes the flat "
        "indices, which are more, to that size.",
        link=_PASSES + "rewrite_index_put_pass.py",
        stage="lower",
        error="is invalid for input of size",
    ),
    Limitation(
        case="crossing_index/accumulate_apart_*",
        target="tosa:fp",
        reason="AccumulateIndexPutPass reads the old elements by index.Tensor with the same "
        "indices, None included. DecomposeIndexTensorToGatherPass refuses None.",
        link=_PASSES + "accumulate_index_put_pass.py",
        stage="lower",
        error="None indices are not supported",
    ),
]

_CONVOLUTION = [
    copy_limitation(
        OPS,
        "xnnpack:fp32",
        "convolution/3d",
        "crossing_conv/3d_*",
        error="Expect input tensor to be 3-D or 4-D",
    ),
    copy_limitation(
        OPS,
        "portable:fp32",
        "convolution/3d",
        "crossing_conv/3d_*_conv_*",
        target="mlx:fp32",
        error="kernel aten::convolution.out",
    ),
    copy_limitation(
        OPS,
        "xnnpack:fp32",
        "convolution/3d",
        "crossing_conv/3d_*",
        target="xnnpack:int8",
        error="Expect input tensor to be 3-D or 4-D",
        # The quantizer annotates the convolution and its relu as one. The partitioner takes the
        # relu alone, from float32 to int8, which XNNPACK's clamp cannot do.
        or_fails=(("run", "xnn_status_unsupported_parameter"),),
    ),
    copy_limitation(
        OPS,
        "tosa:fp",
        "convolution/transposed_3d",
        "crossing_conv/3d_*_deconv_*",
        target="tosa:fp|tosa:int",
        error="kernel aten::convolution.out",
    ),
    Limitation(
        case="crossing_conv/2d_*_reflect_*_channelslast_*",
        target="xnnpack:fp32|xnnpack:int8",
        reason="A reflection becomes reads by index, whose kernel gives its result the contiguous "
        "dim order beside an image in channels-last order; kernels refuse operands of different "
        "dim orders. Workaround: a contiguous image.",
        link=_KERNELS + "util/tensor_util_portable.cpp",
        stage="run",
        error="input tensors have different dim orders",
    ),
    Limitation(
        case="crossing_conv/2d_*_same_even_*_channelslast_*",
        target="xnnpack:int8",
        reason="The pad of an uneven 'same' padding reads an image in channels-last order with the "
        "paddings of the contiguous one, and its declared sizes are those of the contiguous one. "
        "Workaround: a contiguous image, or F.pad before a convolution without padding.",
        link=_XNNPACK + "operators/op_static_constant_pad.py",
        stage="run",
        error="Propagating input shapes failed",
    ),
    copy_limitation(
        QUANT,
        "tosa:int",
        "int_conv2d/same_even_kernel_relu",
        "crossing_conv/2d_*_same_even_stride1_dilation1_*",
        error="for a planned tensor of",
    ),
    copy_limitation(OPS, "metal:fp32", "convolution/transposed_1d", "crossing_conv/1d_*_deconv_*"),
    copy_limitation(OPS, "metal:fp32", "convolution/3d", "crossing_conv/3d_*"),
    copy_limitation(
        OPS, "metal:fp32", "convolution/2d", "crossing_conv/2d_dense_same_odd_stride1_dilation1_*"
    ),
]

_ELEMENTWISE = [
    Limitation(
        case="crossing_elementwise/maximum_*_float32_otherdtype_*"
        "|crossing_elementwise/lt_*_float32_otherdtype_*"
        "|crossing_elementwise/where_*_float32_otherdtype_*",
        target="tosa:int",
        reason="Where one operand is a quantized float and the other an int32 tensor, no Arm pass "
        "scales the integers: the delegate compares or joins them with the codes of the float, and "
        "results are silently wrong. Workaround: convert the integers to float32 first.",
        link=_ARM + "quantizer/quantization_annotator.py",
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        case="crossing_elementwise/div_*_float32_otherdtype_*",
        target="tosa:int",
        reason="DecomposeDivPass makes a RECIPROCAL of the int32 divisor, and TOSA has that for "
        "floats only. Workaround: convert the integers to float32 first.",
        link=_PASSES + "decompose_div_pass.py",
        stage="lower",
        error="Unsupported dtype torch.int32 for RECIPROCAL",
    ),
    copy_limitation(
        OVERLOADS,
        "tosa:fp",
        "overloads/maximum.default/float32",
        "crossing_elementwise/pow_*_float32_otherdtype_*"
        "|crossing_elementwise/maximum_*_float32_otherdtype_*",
    ),
    Limitation(
        case="crossing_elementwise/pow_*_int32_input_*",
        target="tosa:fp",
        reason="The FP list accepts pow of any dtype, and TOSA's POW takes floats only. "
        "Workaround: convert both operands to float32.",
        link=_ARM + "operator_support/tosa_profile_supported_op_lists.py",
        stage="lower",
        error="Unsupported dtype torch.int32 for POW",
    ),
    Limitation(
        case="crossing_elementwise/maximum_*_int32_otherdtype_*",
        target="tosa:fp",
        reason="The FP list accepts maximum of any dtype, and the FP profile has no MAXIMUM of "
        "int32. Workaround: convert both operands to float32.",
        link=_ARM + "operator_support/tosa_profile_supported_op_lists.py",
        stage="lower",
        error="doesn't support int32 for MAXIMUM",
    ),
    Limitation(
        case="crossing_elementwise/rsub_rank0_float16_number_transposed_fixed"
        "|crossing_elementwise/lt_rank0_float32_number_transposed_fixed",
        target="tosa:fp",
        reason="PropagateViewCopyPermuteUpPass._can_move_through_elementwise lets a transposition "
        "cross an operator with one operand whose layout matters, and _move_node places it before "
        "the first operand, here a number, where it is then dropped: results are silently "
        "transposed where the tensor is square. Workaround: `-(x - number)`.",
        link=_SOURCE + "backends/transforms/propagate_view_copy_permute_pass.py",
        stage="run",
        error="for a planned tensor of",
    ),
    Limitation(
        case="crossing_elementwise/rsub_rank0_float16_number_transposed_fixed",
        target="tosa:int",
        reason="`torch.sub(number, x)` exports a number as the first operand of sub.Tensor. "
        "ReplaceScalarWithTensorArgPass handles numbers as second operands only, and the quantizer "
        "then calls sub.Tensor without the second. Workaround: `-(x - number)`.",
        link=_SOURCE + "backends/transforms/replace_scalar_with_tensor.py",
        stage="quantize",
        error="aten::sub() is missing value for argument 'other'",
    ),
    copy_limitation(OPS, "metal:fp32", "cumsum/dim", "crossing_elementwise/pow_*_int*"),
]

_UNBATCHED = "opinfo/adaptive_avg_pool1d/float32_1"
_POOLING = [
    copy_limitation(
        OPINFO,
        "tosa:fp",
        _UNBATCHED,
        "crossing_pool/avg_2d_*_unbatched_*|crossing_pool/adaptive_1d_*_unbatched_*",
        error="not enough values to unpack",
    ),
    copy_limitation(
        OPINFO,
        "tosa:fp",
        _UNBATCHED,
        "crossing_pool/avg_2d_*_unbatched_*",
        target="tosa:int",
        stage="quantize",
        error="not enough values to unpack",
    ),
    copy_limitation(
        OPS, "metal:fp32", "cumsum/dim", "crossing_pool/avg_3d_*|crossing_pool/adaptive_3d_*"
    ),
]

_REDUCTIONS = [
    copy_limitation(
        OPS,
        "tosa:fp",
        "any/fp32_keepdim",
        "crossing_reduction/any_*_float*|crossing_reduction/any_*_int32_*",
        error="REDUCE_ANY requires bool",
    ),
    Limitation(
        case="crossing_reduction/amin_*_int32_*|crossing_reduction/amax_*_int32_*",
        target="tosa:fp",
        reason="MinMaxSupported accepts any dtype, and the FP profile has no reductions of "
        "integers. Workaround: convert to float32.",
        link=_ARM + "operator_support/minmax_support.py",
        stage="lower",
        error="doesn't support integer reductions",
    ),
    copy_limitation(
        OPS,
        "tosa:fp",
        "amax/all",
        "crossing_reduction/amin_all_dropped_*",
        target="tosa:fp|tosa:int",
    ),
    copy_limitation(
        OPS, "tosa:int", "var/all", "crossing_reduction/var_lasttwo_dropped_float32_2_*"
    ),
    copy_limitation(OPS, "metal:fp32", "cumsum/dim", "crossing_reduction/cumsum_*"),
]

_CORTEX_M_LAYERS = [
    copy_limitation(
        OPS,
        "xnnpack:fp32",
        "convolution/3d",
        "crossing_conv/3d_*",
        target="cortex_m:*",
        error="Expect input tensor to be 3-D or 4-D",
    ),
    copy_limitation(
        OPS,
        "cortex_m:int8",
        "convolution/2d_reflect_padding",
        "crossing_conv/2d_*_reflect_*_channelslast_*",
    ),
    copy_limitation(
        OPS,
        "cortex_m:int8",
        "convolution/2d_same_even_kernel",
        "crossing_conv/2d_*_same_even_*_channelslast_*",
    ),
    copy_limitation(
        OPS,
        "cortex_m:int8",
        "convolution/2d_dilation",
        "crossing_conv/2d_dense_number_odd_stride2_dilation2_conv_*_channelslast_*",
    ),
    Limitation(
        target="cortex_m:*",
        case="crossing_pool/avg_2d_*_unbatched_*",
        reason="The shape function of cortex_m.quantized_avg_pool2d returns a channels-last "
        "tensor, which has four dimensions, and the quantizer takes an average pooling of three. "
        "Workaround: `x.unsqueeze(0)` before it.",
        link=_CORTEX_M + "ops/operators.py",
        stage="lower",
        error="required rank 4 tensor to use channels_last format",
    ),
    Limitation(
        target="cortex_m:*",
        case="crossing_pool/max_3d_*_unbatched_contiguous",
        reason="CortexMConv2DCheck takes convolutions of channels-last tensors only, so that the "
        "recipe converts inputs of four dimensions. torch pools no volume without a batch in that "
        "layout.",
        link=_CORTEX_M + "quantizer/pattern_checkers.py",
        stage="build",
        error="Supports only ChannelsLast3d, Contiguous",
        shown_as=Status.UNSUPPORTED,
    ),
]

_CORTEX_M_OPERATORS = [
    Limitation(
        target="cortex_m:*",
        case="crossing_elementwise/maximum_*_float32_otherdtype_*",
        reason="SharedQspecQuantizer takes a maximum of which one operand is an int32 tensor, and "
        "_get_maximum_replacement looks at the first operand only. Workaround: convert the "
        "integers to float32 first.",
        link=_CORTEX_M + "passes/aten_to_cortex_m_pass.py",
        stage="lower",
        error="Cortex-M maximum: dtype mismatch",
    ),
    Limitation(
        target="cortex_m:*",
        case="crossing_elementwise/lt_*_float32_otherdtype_*",
        reason="Cortex-M takes numbers for codes: SharedQspecQuantizer takes a comparison of a "
        "float with an int32 tensor, which FoldAndAnnotateQParamsPass makes one of the float's "
        "codes with the integers. Workaround: convert the integers to float32 first.",
        link=_ARM + "quantizer/arm_quantizer_utils.py",
        stage="compare",
        error=_WRONG,
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="cortex_m:*",
        case="crossing_elementwise/where_*_float32_otherdtype_*",
        reason="SharedQspecQuantizer takes a selection between a float and an int32 tensor, and "
        "FoldAndAnnotateQParamsPass removes the quantization of its result: the program selects "
        "between codes and integers, and dequantizes int32. Workaround: convert the integers to "
        "float32 first.",
        link=_ARM + "_passes/fold_qdq_with_annotated_qparams_pass.py",
        stage="run",
        error="Expecting input to have dtype: torch.int8",
    ),
]

_COREML = [
    copy_limitation(
        OPS,
        "coreml:int8",
        "add/int32",
        "crossing_elementwise/add_*_float32_otherdtype_*"
        "|crossing_elementwise/mul_*_float32_otherdtype_*",
    ),
    copy_limitation(
        OPS,
        "coreml:int8",
        "add/fp16",
        "crossing_elementwise/add_*_float16_*|crossing_elementwise/mul_*_float16_*"
        "|crossing_join/sum_of_split_*_float16_*",
    ),
]

OPERATORS: list[Limitation] = [
    *_INDEX,
    *_CONVOLUTION,
    *_ELEMENTWISE,
    *_POOLING,
    *_REDUCTIONS,
    *_COREML,
    *_CORTEX_M_LAYERS,
    *_CORTEX_M_OPERATORS,
]
