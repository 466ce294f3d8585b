"""Limitations of crossings."""

from __future__ import annotations

from harness import Limitation, Status
from suites.known import copy_limitation
from suites.ops.limitations import LIMITATIONS as OPS
from suites.quant.limitations import LIMITATIONS as QUANT

_SOURCE = "https://github.com/pytorch/executorch/blob/v1.5.1/"
_ARM = _SOURCE + "backends/arm/"
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
    *(
        Limitation(
            case="crossing_conv/3d_*",
            target=target,
            reason="The delegate has no convolution of rank 5, and check_convolution_args "
            "(util/kernel_ops_util.cpp) of the runtime's own kernel refuses it.",
            link=_KERNELS + "util/kernel_ops_util.cpp",
            stage="run",
            error=error,
            or_fails=further,
        )
        for target, error, further in (
            ("xnnpack:fp32", "Expect input tensor to be 3-D or 4-D", ()),
            ("mlx:fp32", "kernel aten::convolution.out", ()),
            (
                "xnnpack:int8",
                "Expect input tensor to be 3-D or 4-D",
                # The quantizer annotates the convolution and its relu as one. The partitioner
                # takes the relu alone, from float32 to int8, which XNNPACK's clamp cannot do.
                (("run", "xnn_status_unsupported_parameter"),),
            ),
        )
    ),
    Limitation(
        case="crossing_conv/3d_*_transposed_bias_*|crossing_conv/3d_*_transposed_nobias_*",
        target="tosa:fp|tosa:int",
        reason="Arm's partitioner takes transposed convolutions of rank 4 only, and "
        "check_convolution_args (util/kernel_ops_util.cpp) of the runtime's own kernel refuses "
        "rank 5.",
        link=_KERNELS + "util/kernel_ops_util.cpp",
        stage="run",
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
    ),
    copy_limitation(
        OPS, "metal:fp32", "convolution/transposed_1d", "crossing_conv/1d_*_transposed_*"
    ),
    copy_limitation(OPS, "metal:fp32", "convolution/3d", "crossing_conv/3d_*"),
    copy_limitation(
        OPS, "metal:fp32", "convolution/2d", "crossing_conv/2d_dense_same_odd_stride1_dilation1_*"
    ),
]
