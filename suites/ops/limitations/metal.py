"""Limitations in the Metal backend: its lowering, its runtime, and Inductor's code for MPS.

An error that ends with ``[refusal]``, ``[missing]`` or ``[defect]`` breaks a rule of the runtime's
contract (backends/metal/contract), which names its source.
"""

from __future__ import annotations

from harness import Limitation, Status

_ALL = "metal:*"
_FLOAT32 = "metal:fp32"
_BFLOAT16 = "metal:bf16"
_SOURCE = "https://github.com/pytorch/executorch/blob/v1.5.1/"
_BACKEND = _SOURCE + "backends/apple/metal/metal_backend.py"
_RUNTIME = _SOURCE + "backends/apple/metal/runtime/"
_CONVOLUTION = _RUNTIME + "ops/op_convolution.mm"
_TORCH = "https://github.com/pytorch/pytorch/blob/v2.13.0/torch/"
_INDUCTOR = _TORCH + "_inductor/"

_EXPM1 = (
    "MetalOverrides (codegen/mps.py) has no expm1, so OpDecompositions (codegen/common.py) "
    "computes exp(x) - 1, which cancels near zero. The header c10/metal/expm1f.h has an accurate "
    "function."
)
_LOG1P = (
    "MetalOverrides (codegen/mps.py) has no log1p, so OpDecompositions (codegen/common.py) "
    "computes log(x + 1), which cancels near zero. The header c10/metal/utils.h has a more "
    "accurate function."
)
_MISSING = (
    "Inductor has no MPS code for this operator and calls ATen's kernel, which is not among "
    "MetalBackend.get_supported_fallback_kernels (metal_backend.py). MetalPartitioner delegates "
    "the node, and preprocess refuses it."
)


def _near_zero(target: str, case: str, reason: str, seed: int | None = None) -> Limitation:
    """Make the limitation of a decomposition that cancels near zero."""
    return Limitation(
        target=target,
        case=case,
        reason=reason,
        link=_INDUCTOR + "codegen/common.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
        seed=seed,
    )


METAL: list[Limitation] = [
    # Export flow and partitioning
    Limitation(
        target=_ALL,
        case="nonzero/2d",
        reason="AotiBackend.preprocess calls move_to_device_pass, which runs EdgeOpArgValidator "
        "(exir/verification/arg_validator.py) on fake tensors of its own. The size that nonzero "
        "creates there belongs to no node of the graph, and AOTInductor's tracing raises an "
        "error.",
        link=_SOURCE + "exir/verification/arg_validator.py",
        stage="lower",
        error="Pending unbacked symbols",
    ),
    Limitation(
        target=_ALL,
        case="meshgrid/ij",
        reason="MetalPartitioner delegates expand, and the delegate's output has a stride of 0, "
        "for which dim_order_from_stride (exir/tensor.py) has no dim order. Workaround: "
        "`.clone()` after the expand.",
        link=_SOURCE + "exir/tensor.py",
        stage="to_executorch",
        error="0 in strides is not supported",
    ),
    Limitation(
        target=_BFLOAT16,
        case="index_put/bool_mask",
        reason="ATen converts a 0-D value, here float32, to the dtype of the tensor. The edge "
        "verifier (exir/verification/verifier.py, _check_tensor_args_matching_op_allowed_dtype) "
        "requires one dtype for both. Workaround: convert the value, `.to(x.dtype)`.",
        link=_SOURCE + "exir/verification/verifier.py",
        stage="lower",
        error="mismatched dtypes",
    ),
    # Inductor's code for MPS
    Limitation(
        target=_ALL,
        case="sinh/*|cosh/2d|asinh/2d|acosh/2d|logical_xor/bool",
        reason="MetalPartitioner delegates every operator, but MetalOverrides (codegen/mps.py) "
        "has no code for this one, and Inductor has no decomposition of it.",
        link=_INDUCTOR + "codegen/mps.py",
        stage="lower",
        error="InductorError: NotImplementedError",
    ),
    _near_zero(_FLOAT32, "expm1/3d|elu/alpha", _EXPM1, seed=0),
    _near_zero(_FLOAT32, "expm1/near_zero", _EXPM1),
    _near_zero(_BFLOAT16, "expm1/near_zero", _EXPM1, seed=0),
    _near_zero(_ALL, "softplus/beta_threshold", _LOG1P),
    _near_zero(_FLOAT32, "log1p/near_zero", _LOG1P),
    _near_zero(_BFLOAT16, "log1p/near_zero", _LOG1P, seed=0),
    Limitation(
        target=_BFLOAT16,
        case="scatter_add/repeated_indices",
        reason="atomic_add_helper (c10/metal/atomic.h) adds a bfloat16 by way of the 32-bit word "
        "that contains it. The last of an odd number of elements shares its word with memory "
        "past the end of the tensor.",
        link="https://github.com/pytorch/pytorch/blob/v2.13.0/c10/metal/atomic.h",
        stage="run",
        error="writes out_ptr0[14], which has 15 elements",
        seed=0,
    ),
    # Kernels that the runtime does not have
    Limitation(
        target=_ALL,
        case="baddbmm/beta_alpha|bilinear/bias|cumsum/*|masked_scatter/fp32|sort/*"
        "|_cdist_forward/l2|_embedding_bag/mean|_pdist_forward/l2",
        reason=_MISSING,
        link=_BACKEND,
        stage="lower",
        error="missing fallback kernels",
        shown_as=Status.UNSUPPORTED,
    ),
    Limitation(
        target=_BFLOAT16,
        case="index_add/dim0",
        reason=_MISSING + " In float32 it is an atomic addition.",
        link=_BACKEND,
        stage="lower",
        error="missing fallback kernels",
        shown_as=Status.UNSUPPORTED,
    ),
    Limitation(
        target=_ALL,
        case="scatter_add/dim1_int64|scatter_reduce/*",
        reason="_generate_scatter_fallback (codegen/cpp_wrapper_cpu.py) does not use "
        "generate_c_shim_extern_kernel_call, where AotiBackend collects missing kernels. "
        "Lowering succeeds, and the compiled library needs a function that the runtime does not "
        "have.",
        link=_INDUCTOR + "codegen/cpp_wrapper_cpu.py",
        stage="lower",
        error="aoti_torch_mps_scatter_reduce_two_out: is not in v",
    ),
    # Kernels of the runtime
    Limitation(
        target=_ALL,
        case="convolution/2d|convolution/2d_no_bias|convolution/2d_rectangular_kernel"
        "|convolution/2d_stride_*|convolution/2d_padding_asymmetric"
        "|convolution/2d_same_even_kernel|convolution/2d_reflect_padding|convolution/2d_dilation"
        "|convolution/2d_depthwise|convolution/2d_depthwise_*|convolution/2d_one_pixel"
        "|convolution/2d_two_scales|convolution/2d_unbatched|convolution/2d_then_relu"
        "|convolution/2d_chain|convolution/2d_weight_is_input|convolution/2d_weight_read"
        "|convolution/2d_channels_last_weight|convolution/transposed_2d"
        "|convolution/transposed_2d_stride|convolution/transposed_2d_output_padding"
        "|convolution/transposed_2d_no_bias|convolution/transposed_2d_dilation"
        "|_native_batch_norm_legit_no_training/after_convolution|_softmax/behind_convolution",
        reason="Inductor's layout optimization (GraphLowering.decide_layout_opt) gives most 2-D "
        "convolutions channels-last operands. aoti_torch_mps_convolution (op_convolution.mm) "
        "reads them as if they were contiguous, so results are silently wrong. Workaround: "
        "`torch._inductor.config.layout_optimization = False` before lowering.",
        link="https://github.com/pytorch/executorch/issues/22951",
        stage="lower",
        error="are not contiguous: the runtime reads them as if they were [defect]",
    ),
    Limitation(
        target=_ALL,
        case="convolution/1d_tied|convolution/transposed_1d|convolution/transposed_2d_grouped",
        reason="aoti_torch_mps_convolution (op_convolution.mm) computes a transposed convolution "
        "as an ordinary one with other padding, so results are silently wrong.",
        link=_CONVOLUTION,
        stage="lower",
        error="transposed 1 is ignored",
    ),
    Limitation(
        target=_ALL,
        case="convolution/3d|convolution/3d_stride_padding|convolution/transposed_3d",
        reason="aoti_torch_mps_convolution (op_convolution.mm) supports 1-D and 2-D convolutions "
        "only.",
        link=_CONVOLUTION,
        stage="lower",
        error="weight rank 5 is not 3 or 4 [refusal]",
        shown_as=Status.UNSUPPORTED,
    ),
    Limitation(
        target=_ALL,
        case="scaled_dot_product_attention/*",
        reason="aoti_torch_mps__scaled_dot_product_attention_math_for_mps_v2 (op_sdpa.mm) has "
        "kernels for head dimensions 64, 96, 128 and 256 only; the cases here have 8. "
        "suites/metal has cases with other head dimensions.",
        link=_RUNTIME + "ops/op_sdpa.mm",
        stage="lower",
        error="query head dim 8 is not 64, 96, 128 or 256 [refusal]",
        shown_as=Status.UNSUPPORTED,
    ),
    Limitation(
        target=_ALL,
        case="einsum/contract",
        reason="Inductor passes operands of bmm in any layout, and aoti_torch_mps_bmm_out "
        "(op_bmm.mm) refuses a transposed first operand.",
        link=_RUNTIME + "ops/op_bmm.mm",
        stage="lower",
        error="are not exactly those of a contiguous tensor [refusal]",
    ),
    Limitation(
        target=_ALL,
        case="mm/int32",
        reason="MetalPartitioner delegates matrix products of any dtype, but "
        "aoti_torch_mps_mm_out (op_mm.mm) supports float32 and bfloat16 only.",
        link=_RUNTIME + "ops/op_mm.mm",
        stage="lower",
        error="self dtype int32 is not bfloat16 or float32 [refusal]",
    ),
    # Tensors that the runtime does not have
    Limitation(
        target=_ALL,
        case="_to_copy/fp32_to_fp16*",
        reason="MetalPartitioner delegates casts to any dtype, but validate_dtype "
        "(shims/utils.cpp) refuses float16 tensors.",
        link=_RUNTIME + "shims/utils.cpp",
        stage="lower",
        error="dtype float16 is none of",
        shown_as=Status.UNSUPPORTED,
    ),
    Limitation(
        target=_ALL,
        case="_to_copy/fp32_to_int8|_to_copy/int32_to_int8_wraps",
        reason="MetalPartitioner delegates casts to any dtype, but validate_dtype "
        "(shims/utils.cpp) refuses int8 tensors.",
        link=_RUNTIME + "shims/utils.cpp",
        stage="lower",
        error="dtype int8 is none of",
        shown_as=Status.UNSUPPORTED,
    ),
    Limitation(
        target=_ALL,
        case="*/empty|mm/empty_inner_dim|repeat/zero_times|slice_copy/to_empty"
        "|sum/empty_dim_gives_zeros",
        reason="metal_allocate_buffer and metal_buffer_nocopy (shims/et_metal.mm) cannot create a "
        "buffer of 0 bytes, so a tensor without elements cannot be an input, an output or a view.",
        link=_RUNTIME + "shims/et_metal.mm",
        stage="lower",
        error="leave no byte",
        shown_as=Status.UNSUPPORTED,
    ),
]
