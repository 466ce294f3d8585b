"""Limitations of the Cortex-M backend: its passes, and portable kernels that get its layouts."""

from __future__ import annotations

from harness import Limitation, Status

_TARGET = "cortex_m:*"
_ISSUE = "https://github.com/pytorch/executorch/issues/12914"
_SOURCE = "https://github.com/pytorch/executorch/blob/v1.5.1/"
_PASSES = _SOURCE + "backends/cortex_m/passes/"
_QUANTIZER = _SOURCE + "backends/arm/quantizer/arm_quantizer_utils.py"
_KERNELS = _SOURCE + "kernels/portable/cpu/"


def _codes(case: str, what: str, seed: int | None = None) -> Limitation:
    return Limitation(
        target=_TARGET,
        case=case,
        reason=f"Cortex-M takes numbers for codes: {what}. SharedQspecQuantizer annotates the "
        "operator as if it only moved values, and FoldAndAnnotateQParamsPass removes the "
        "dequantization before it.",
        link=_QUANTIZER,
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
        seed=seed,
    )


def _layout(case: str, reason: str, *, error: str = "dim order", link: str = _ISSUE) -> Limitation:
    return Limitation(
        target=_TARGET, case=case, reason=reason, link=link, stage="run", error=error
    )


def _silent_layout(case: str, reason: str) -> Limitation:
    return Limitation(
        target=_TARGET,
        case=case,
        reason=reason,
        link=_ISSUE,
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    )


CORTEX_M: list[Limitation] = [
    Limitation(
        target=_TARGET,
        case="matmul/parameter",
        reason="MatmulToBmmPass asks both operands for to_tensor(), which a parameter does not "
        "have while the quantizer annotates (docs/findings/cortex_m_matmul_parameter.py). "
        "Workaround: a `torch.nn.Linear`, or `torch.mm` of two dimensions.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/cortex_m/passes/"
        "matmul_to_bmm_pass.py",
        stage="quantize",
        error="has no attribute 'to_tensor'",
    ),
    # Passes that compute on codes
    _codes("full_like/fp32|fill/number", "full_like fills a tensor of codes with the number"),
    _codes(
        "ge/number|where/computed_condition|where/bool_and_fp32|where/fp32_and_bool"
        "|index_put/mask_of_pixels",
        "a comparison with a number compares the codes with it",
    ),
    # With another seed the zero point is 0.
    _codes("index_put/accumulate", "accumulation adds up codes, zero points included", seed=0),
    # Passes that raise
    Limitation(
        target=_TARGET,
        case="_to_copy/fp32_to_fp16|_to_copy/fp32_to_fp16_overflows",
        reason="ReplaceQuantNodesPass replaces a dequantization to float16 by "
        "cortex_m.dequantize_per_tensor, which has no argument for the type.",
        link=_PASSES + "replace_quant_nodes_pass.py",
        stage="lower",
        error="dequantize_per_tensor() expected at most 6 argument(s)",
    ),
    *(
        Limitation(
            target=_TARGET,
            case=case,
            reason="The quantizer takes an addition or product of which one operand is no float, "
            "and _get_quantized_add_replacement or _get_quantized_mul_replacement reads the "
            "parameters that this operand does not have.",
            link=_PASSES + "aten_to_cortex_m_pass.py",
            stage="lower",
            error=error,
        )
        for case, error in (
            ("add/int32_to_fp32|mul/bool_mask", "KeyError: 1"),
            ("full_like/to_int32", "KeyError: 0"),
        )
    ),
    Limitation(
        target=_TARGET,
        case="avg_pool2d/padding_height_counted|avg_pool2d/padding_width_counted",
        reason="The replacement of avg_pool2d passes on an empty stride, which stands for the "
        "kernel size. Workaround: write the stride.",
        link=_PASSES + "aten_to_cortex_m_pass.py",
        stage="lower",
        error="Expected length-2 sequence, got []",
    ),
    Limitation(
        target=_TARGET,
        case="convolution/2d_weight_is_input",
        reason="The replacement of a convolution reads its weight as a constant, and the quantizer "
        "takes a convolution whose weight is computed.",
        link=_PASSES + "aten_to_cortex_m_pass.py",
        stage="lower",
        error="unsupported param type, call_function",
    ),
    Limitation(
        target=_TARGET,
        case="max_pool2d_with_indices/indices",
        reason="RemoveGetItemPass accepts a max pool with one reader only, not one whose indices "
        "are returned as well.",
        link=_SOURCE + "backends/transforms/remove_getitem_op.py",
        stage="lower",
        error="Invalid number of users for aten.max_pool2d_with_indices.default",
    ),
    Limitation(
        target=_TARGET,
        case="max_pool2d_with_indices/unbatched",
        reason="The shape function of cortex_m.quantized_max_pool2d reads four dimensions, and the "
        "quantizer takes a max pool of three. Workaround: `x.unsqueeze(0)` before it.",
        link=_SOURCE + "backends/cortex_m/ops/operators.py",
        stage="lower",
        error="tuple index out of range",
    ),
    Limitation(
        target=_TARGET,
        case="max/indices_alone",
        reason="RemoveGetItemPass takes a max whose values are read, not one whose indices alone "
        "are. Workaround: `x.argmax(1)`.",
        link=_SOURCE + "backends/transforms/remove_getitem_op.py",
        stage="lower",
        error="but not getting the indices alone",
    ),
    Limitation(
        target=_TARGET,
        case="avg_pool2d/unbatched",
        reason="The shape function of cortex_m.quantized_avg_pool2d returns a channels-last "
        "tensor, which has four dimensions, and the quantizer takes an average pooling of three. "
        "Workaround: `x.unsqueeze(0)` before it.",
        link=_SOURCE + "backends/cortex_m/ops/operators.py",
        stage="lower",
        error="required rank 4 tensor to use channels_last format",
    ),
    # Programs that cannot run
    Limitation(
        target=_TARGET,
        case="arange/from_shape|copy/converts|div/int64_promotes|sigmoid/int32_promotes"
        "|sqrt/int32_promotes|cat/promotes",
        reason="The quantizer annotates the result of an operator on integers. "
        "FoldAndAnnotateQParamsPass removes the quantization behind it, and the program "
        "dequantizes a tensor that is not quantized.",
        link=_SOURCE + "backends/arm/_passes/fold_qdq_with_annotated_qparams_pass.py",
        stage="run",
        error="Expecting input to have dtype: torch.int8",
    ),
    Limitation(
        target=_TARGET,
        case="hardsigmoid/2d|hardswish/2d",
        reason="cortex_m_edge_compile_config preserves hardsigmoid and hardswish, no pass replaces "
        "one that is not fused with a layer, and the runtime has no kernel for either.",
        link=_SOURCE + "backends/cortex_m/edge_compile_config.py",
        stage="run",
        error="the runtime has no kernel aten::hards",
    ),
    Limitation(
        target=_TARGET,
        case="convolution/2d_dilation",
        reason="Arm's reference of quantized_conv2d calls torch's convolution with int32 tensors, "
        "which has no dilation. The program may be right.",
        link=_SOURCE + "backends/cortex_m/ops/operators.py",
        stage="run",
        error='"slow_conv_dilated<>" not implemented',
        shown_as=Status.UNSUPPORTED,
    ),
    # Portable kernels that refuse channels-last tensors
    _layout(
        "_native_batch_norm_legit_no_training/2d*",
        "op_native_batch_norm.cpp refuses a channels-last input.",
        error="is_contiguous_dim_order",
    ),
    _layout(
        "native_group_norm/groups|native_group_norm/per_channel_no_affine"
        "|native_group_norm/channels_last|full_like/channels_last",
        "op_native_group_norm.cpp and op_full_like.cpp refuse a channels-last input.",
        error="tensor_is_default_dim_order",
    ),
    _layout(
        "scaled_dot_product_attention/plain|scaled_dot_product_attention/causal"
        "|scaled_dot_product_attention/scale|scaled_dot_product_attention/*_mask"
        "|scaled_dot_product_attention/grouped_queries|scaled_dot_product_attention/flattened"
        "|prelu/per_channel|_to_copy/to_channels_last|convolution/2d_two_scales",
        "op_mul.cpp requires one dim order for all operands, and the number or weight that "
        "multiplies a channels-last tensor has the default one.",
    ),
    _layout(
        "reflection_pad2d/asymmetric|replication_pad2d/asymmetric|unfold/im2col"
        "|convolution/2d_reflect_padding",
        "op_index.cpp requires the dim order of its input, and the program declares a contiguous "
        "result of a channels-last input.",
        link=_KERNELS + "op_index.cpp",
    ),
    _layout(
        "amax/dims_keepdim|squeeze_copy/all|slice_copy/channels_last|floor/transposed",
        "op_amax.cpp, op_squeeze_copy.cpp, op_slice_copy.cpp and the unary kernels require the dim "
        "order of their input, and the program declares a result of another one.",
    ),
    _layout(
        "grid_sampler_2d/bilinear_zeros",
        "op_grid_sampler_2d.cpp refuses a channels-last input.",
        error="Input must be in NCHW format",
        link=_KERNELS + "op_grid_sampler_2d.cpp",
    ),
    _layout(
        "convolution/2d_transposed_input",
        "op_convolution.cpp refuses a tensor in the layout of the transposed example.",
        error="tensor_is_default_or_channels_last_dim_order(in)",
        link=_KERNELS + "op_convolution.cpp",
    ),
    _layout(
        "argmax/transposed",
        "op_argmax.cpp refuses a tensor in the layout of the transposed example.",
        error="check_argmin_argmax_args(in, dim, keepdim, out)",
        link=_KERNELS + "op_argmax.cpp",
    ),
    # Portable kernels that permute values of other layouts
    _silent_layout(
        "cat/channels_last|convolution/2d_same_even_kernel",
        "op_cat.cpp and op_constant_pad_nd.cpp copy blocks of a channels-last tensor as if memory "
        "were row-major: values are silently permuted.",
    ),
    _silent_layout(
        "pixel_shuffle/factor3|pixel_shuffle/int64|pixel_unshuffle/factor2",
        "view_copy becomes a view of planned memory, which is channels-last, and the program "
        "declares the result contiguous: values are silently permuted.",
    ),
    _silent_layout(
        "mm/transposed_inputs|native_layer_norm/transposed_input",
        "The kernels of mm and native_layer_norm read transposed tensors as if memory were "
        "row-major.",
    ),
]
