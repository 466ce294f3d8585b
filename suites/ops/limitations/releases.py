"""Gaps that releases before the tested one have, and it has not: each says until when."""

from __future__ import annotations

from harness import Limitation, Status

_SOURCE = "https://github.com/pytorch/executorch/blob/"
_POOLED = "max_pool2d_with_indices/" + "|max_pool2d_with_indices/".join(
    ("plain", "channels_last", "unbatched")
)
_NO_STRIDE = (
    "A pooling whose stride is its kernel size has no argument for it in the edge dialect, or an "
    "empty one: "
)
_AVERAGED = _NO_STRIDE + "DecomposeAvgPool2dPass (backends/arm/_passes/) unpacks two numbers."
_COMPARED = (
    "TOSA_PRO_FP_SupportList of 1.4.1 takes comparisons whatever their dtype, and EQUAL of the "
    "floating-point profile has floats alone; 1.5.0 leaves them to the CPU."
)
_ADDMM = (
    "Inductor calls ATen's kernel, which is not among MetalBackend.get_supported_fallback_kernels "
    "(metal_backend.py) before 1.5.0, nor in its runtime."
)

RELEASES: list[Limitation] = [
    Limitation(
        target="tosa:fp|tosa:int",
        case=f"{_POOLED}|max_pool2d_with_indices/indices",
        reason=_NO_STRIDE + "MaxPool2dSupported.is_node_tosa_supported "
        "(backends/arm/operator_support/pool_2d_support.py) reads it all the same.",
        link=_SOURCE + "v1.4.1/backends/arm/operator_support/pool_2d_support.py",
        stage="lower",
        error="tuple index out of range",
        until="1.5.1",
    ),
    Limitation(
        target="tosa:fp",
        case="avg_pool2d/divisor",
        reason=_AVERAGED,
        link=_SOURCE + "v1.4.1/backends/arm/_passes/decompose_avg_pool2d_pass.py",
        stage="lower",
        error="not enough values to unpack",
        until="1.5.1",
    ),
    Limitation(
        target="tosa:int",
        case="avg_pool2d/divisor",
        reason=_AVERAGED,
        link=_SOURCE + "v1.4.1/backends/arm/_passes/decompose_avg_pool2d_pass.py",
        stage="quantize",
        error="not enough values to unpack",
        until="1.5.1",
    ),
    Limitation(
        target="xnnpack:fp32",
        case=_POOLED,
        reason=_NO_STRIDE + "MaxPool2dConfig.check_constraints "
        "(backends/xnnpack/partition/config/generic_node_configs.py) reads it all the same.",
        link=_SOURCE + "v1.4.1/backends/xnnpack/partition/config/generic_node_configs.py",
        stage="lower",
        error="index out of range",
        until="1.5.0",
    ),
    Limitation(
        target="tosa:fp",
        case="eq/bool",
        reason=_COMPARED,
        stage="lower",
        error="Unsupported dtype torch.bool for EQUAL",
        until="1.5.0",
    ),
    Limitation(
        target="tosa:fp",
        case="ne/int32_number",
        reason=_COMPARED,
        stage="lower",
        error="TOSA spec TOSA-1.0+FP doesn't support",
        until="1.5.0",
    ),
    Limitation(
        target="metal:*",
        case="addmm/*|convolution/2d_pointwise|linear/shared_twice",
        reason=_ADDMM,
        link="https://github.com/pytorch/executorch/pull/19924",
        stage="lower",
        error="aoti_torch_mps_addmm_out",
        shown_as=Status.UNSUPPORTED,
        until="1.5.0",
    ),
    Limitation(
        target="tosa:int",
        case="convolution/transposed_2d_dilation",
        reason="A dilated transposed convolution is left to the CPU with a bias whose zero points "
        "are int32: dequantize_per_channel_out (kernels/quantized/cpu/op_dequantize.cpp) of 1.4.1 "
        "takes them and reads them as int64, past their end.",
        link=_SOURCE + "v1.4.1/kernels/quantized/cpu/op_dequantize.cpp",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
        until="1.5.0",
    ),
    Limitation(
        target="tosa:fp|tosa:int",
        case="upsample_nearest2d/uneven_size",
        reason="RewriteUpsamplePass.get_resize_parameters_1d (backends/arm/_passes/) gives a "
        "nearest resize the offset of a bilinear one, and TOSA's reads half a step further: other "
        "elements wherever the ratio is no integer.",
        link=_SOURCE + "v1.4.1/backends/arm/_passes/rewrite_upsample.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
        until="1.5.0",
    ),
    Limitation(
        target="tosa:fp",
        case="sum/out_dtype|any/fp32_keepdim",
        reason="validate_same_dtype (backends/arm/operators/operator_validation_utils.py) asks "
        "for a result of the input's dtype, and nothing before it casts; the partitioner takes "
        "the node all the same.",
        link=_SOURCE + "v1.4.1/backends/arm/operators/operator_validation_utils.py",
        stage="lower",
        error="Expected all tensors to have dtype",
        until="1.5.0",
    ),
    Limitation(
        target="metal:*",
        case="split_with_sizes_copy/even|split_with_sizes_copy/uneven_remainder|"
        "split_with_sizes_copy/chunk",
        reason="AotiBackend of 1.4.1 hands split_copy to Inductor undecomposed, which has no code "
        "for it on MPS and calls ATen's kernel; Metal's runtime has none.",
        stage="lower",
        error="aten::split_copy.Tensor",
        shown_as=Status.UNSUPPORTED,
        until="1.5.0",
    ),
    Limitation(
        target="xnnpack:fp32",
        case="_native_batch_norm_legit_no_training/after_convolution",
        reason="FuseBatchNormPass (backends/xnnpack/_passes/) names the fused weight after the "
        "parameter, which is 0.weight in a Sequential. A placeholder's name cannot begin with a "
        "digit and becomes another, under which nobody finds the weight.",
        link=_SOURCE + "v1.4.1/backends/xnnpack/_passes/fuse_batch_norm.py",
        stage="lower",
        error="'0_weight_fused_bn' is not in list",
        until="1.5.0",
    ),
    Limitation(
        target="tosa:int",
        case="_native_batch_norm_legit_no_training/2d_channels_last",
        reason="The integer profile leaves batch norms to the CPU before 1.5.0, and ExecuTorch's "
        "kernel (kernels/portable/cpu/op_native_batch_norm.cpp) takes contiguous tensors alone.",
        stage="run",
        error="op_native_batch_norm.cpp",
        until="1.5.0",
    ),
]
