"""Limitations of earlier releases only. ``until`` names the first release without them."""

from __future__ import annotations

from harness import Limitation, Status

_SOURCE = "https://github.com/pytorch/executorch/blob/"
_POOLED = "max_pool2d_with_indices/" + "|max_pool2d_with_indices/".join(
    ("plain", "channels_last", "unbatched")
)
_NO_STRIDE = (
    "In the edge dialect the stride argument of a pooling may be missing or empty, which means "
    "the kernel size. "
)
_AVERAGED = (
    f"{_NO_STRIDE}DecomposeAvgPool2dPass (backends/arm/_passes/) unpacks two numbers. "
    "Workaround: pass `stride`."
)
_COMPARED = (
    "TOSA_PRO_FP_SupportList of 1.4.1 accepts comparisons of any dtype, but EQUAL of the "
    "floating-point profile supports floats only. 1.5.0 leaves comparisons of other dtypes to "
    "the CPU."
)
_ADDMM = (
    "Inductor calls ATen's kernel, which before 1.5.0 neither "
    "MetalBackend.get_supported_fallback_kernels (metal_backend.py) lists nor the runtime has."
)

RELEASES: list[Limitation] = [
    Limitation(
        target="tosa:fp|tosa:int",
        case=f"{_POOLED}|max_pool2d_with_indices/indices",
        reason=_NO_STRIDE + "MaxPool2dSupported.is_node_tosa_supported "
        "(backends/arm/operator_support/pool_2d_support.py) reads it without checking. "
        "Workaround: pass `stride`.",
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
        "(backends/xnnpack/partition/config/generic_node_configs.py) reads it without checking. "
        "Workaround: pass `stride`.",
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
        reason="A dilated transposed convolution runs on the CPU with a bias whose zero points "
        "are int32. dequantize_per_channel_out (kernels/quantized/cpu/op_dequantize.cpp) of "
        "1.4.1 reads them as int64, past the end of the tensor.",
        link=_SOURCE + "v1.4.1/kernels/quantized/cpu/op_dequantize.cpp",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
        until="1.5.0",
    ),
    Limitation(
        target="tosa:fp|tosa:int",
        case="upsample_nearest2d/uneven_size",
        reason="RewriteUpsamplePass.get_resize_parameters_1d (backends/arm/_passes/) uses the "
        "offset of a bilinear resize for a nearest one. TOSA's RESIZE then reads half a step "
        "further, which selects other elements wherever the ratio is not an integer.",
        link=_SOURCE + "v1.4.1/backends/arm/_passes/rewrite_upsample.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
        until="1.5.0",
    ),
    Limitation(
        target="tosa:fp",
        case="sum/out_dtype|any/fp32_keepdim",
        reason="validate_same_dtype (backends/arm/operators/operator_validation_utils.py) "
        "requires a result of the input's dtype, and no pass inserts a cast. The partitioner "
        "delegates the node anyway.",
        link=_SOURCE + "v1.4.1/backends/arm/operators/operator_validation_utils.py",
        stage="lower",
        error="Expected all tensors to have dtype",
        until="1.5.0",
    ),
    Limitation(
        target="metal:*",
        case="split_with_sizes_copy/even|split_with_sizes_copy/uneven_remainder|"
        "split_with_sizes_copy/chunk",
        reason="AotiBackend of 1.4.1 does not decompose split_copy. Inductor has no MPS code for "
        "it and calls ATen's kernel, which Metal's runtime does not have.",
        stage="lower",
        error="aten::split_copy.Tensor",
        shown_as=Status.UNSUPPORTED,
        until="1.5.0",
    ),
    Limitation(
        target="xnnpack:fp32",
        case="_native_batch_norm_legit_no_training/after_convolution",
        reason="FuseBatchNormPass (backends/xnnpack/_passes/) names the fused weight after its "
        "parameter, for example 0.weight in a Sequential. A placeholder's name cannot begin with "
        "a digit, so it is renamed and the weight is not found.",
        link=_SOURCE + "v1.4.1/backends/xnnpack/_passes/fuse_batch_norm.py",
        stage="lower",
        error="'0_weight_fused_bn' is not in list",
        until="1.5.0",
    ),
    Limitation(
        target="tosa:int",
        case="_native_batch_norm_legit_no_training/2d_channels_last",
        reason="Before 1.5.0 the integer profile leaves batch norms to the CPU, and ExecuTorch's "
        "kernel (kernels/portable/cpu/op_native_batch_norm.cpp) supports contiguous tensors only.",
        stage="run",
        error="op_native_batch_norm.cpp",
        until="1.5.0",
    ),
]
