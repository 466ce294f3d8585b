"""Limitations in the Metal backend: its lowering, its runtime, and Inductor's code for MPS.

What ends with ``[refusal]``, ``[missing]`` or ``[defect]`` broke a rule of the runtime's contract
(backends/metal/contract), which names the source that it was read from.
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
    "MetalOverrides (codegen/mps.py) has no expm1, so OpDecompositions (codegen/common.py) makes "
    "it exp(x) - 1, of which little is right near zero. The header c10/metal/expm1f.h has one that "
    "is good to an ULP."
)
_LOG1P = (
    "MetalOverrides (codegen/mps.py) has no log1p, so OpDecompositions "
    "(codegen/common.py) makes it log(x + 1), of which little is right near zero. The header "
    "c10/metal/utils.h has a better one."
)
_MISSING = (
    "Inductor has no code for it on MPS and calls ATen's kernel, which is not among "
    "MetalBackend.get_supported_fallback_kernels (metal_backend.py): preprocess refuses, though "
    "MetalPartitioner took it."
)


def _near_zero(target: str, case: str, reason: str, seed: int | None = None) -> Limitation:
    """A decomposition that cancels."""
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
        reason="EdgeOpArgValidator (exir/verification/arg_validator.py), which "
        "AotiBackend.preprocess comes to by way of move_to_device_pass, runs the graph on its own "
        "fake tensors. The size that nonzero makes there belongs to no node, and AOTInductor's "
        "tracing stumbles over it.",
        link=_SOURCE + "exir/verification/arg_validator.py",
        stage="lower",
        error="Pending unbacked symbols",
    ),
    Limitation(
        target=_ALL,
        case="meshgrid/ij",
        reason="MetalPartitioner takes expand and the output is the delegate's, expanded: with a "
        "stride of 0, for which dim_order_from_stride (exir/tensor.py) knows no dim order.",
        link=_SOURCE + "exir/tensor.py",
        stage="to_executorch",
        error="0 in strides is not supported",
    ),
    Limitation(
        target=_BFLOAT16,
        case="index_put/bool_mask",
        reason="ATen converts a 0-D value, here float32, to the tensor's dtype; the edge verifier "
        "(exir/verification/verifier.py, _check_tensor_args_matching_op_allowed_dtype) demands "
        "one dtype of both.",
        link=_SOURCE + "exir/verification/verifier.py",
        stage="lower",
        error="mismatched dtypes",
    ),
    # Inductor's code for MPS
    Limitation(
        target=_ALL,
        case="sinh/*|cosh/2d|asinh/2d|acosh/2d|logical_xor/bool",
        reason="MetalPartitioner takes any operator, but MetalOverrides (codegen/mps.py) has no "
        "code for this one, nor has Inductor a decomposition.",
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
        reason="A bfloat16 is added to by way of the 32-bit word that holds it (atomic_add_helper "
        "in c10/metal/atomic.h): the last of an odd number shares its word with what lies "
        "behind the tensor.",
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
        reason="_generate_scatter_fallback (codegen/cpp_wrapper_cpu.py) writes its call without "
        "generate_c_shim_extern_kernel_call, where AotiBackend collects missing kernels: "
        "lowering passes, and the library asks for a function that the runtime does not have.",
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
        "|convolution/2d_unbatched|convolution/2d_then_relu|convolution/2d_chain"
        "|convolution/2d_weight_is_input|convolution/transposed_2d"
        "|convolution/transposed_2d_stride|convolution/transposed_2d_output_padding"
        "|convolution/transposed_2d_no_bias|convolution/transposed_2d_dilation"
        "|_native_batch_norm_legit_no_training/after_convolution",
        reason="Inductor's layout optimization (GraphLowering.decide_layout_opt) gives most "
        "2-D convolutions channels-last operands; aoti_torch_mps_convolution "
        "(op_convolution.mm) reads them as if they were contiguous: silently wrong.",
        link="https://github.com/pytorch/executorch/issues/22951",
        stage="lower",
        error="are not contiguous: the runtime reads them as if they were [defect]",
    ),
    Limitation(
        target=_ALL,
        case="convolution/transposed_1d|convolution/transposed_2d_grouped",
        reason="aoti_torch_mps_convolution (op_convolution.mm) builds a transposed convolution "
        "as an ordinary one with other padding: silently wrong.",
        link=_CONVOLUTION,
        stage="lower",
        error="transposed 1 is ignored",
    ),
    Limitation(
        target=_ALL,
        case="convolution/3d|convolution/3d_stride_padding|convolution/transposed_3d",
        reason="aoti_torch_mps_convolution (op_convolution.mm) has convolutions in one and two "
        "dimensions only.",
        link=_CONVOLUTION,
        stage="lower",
        error="weight rank 5 is not 3 or 4 [refusal]",
        shown_as=Status.UNSUPPORTED,
    ),
    Limitation(
        target=_ALL,
        case="scaled_dot_product_attention/*",
        reason="The kernels of aoti_torch_mps__scaled_dot_product_attention_math_for_mps_v2 "
        "(op_sdpa.mm) are made for heads of 64, 96, 128 and 256; the suite's have 8. "
        "suites/metal has the others.",
        link=_RUNTIME + "ops/op_sdpa.mm",
        stage="lower",
        error="query head dim 8 is not 64, 96, 128 or 256 [refusal]",
        shown_as=Status.UNSUPPORTED,
    ),
    Limitation(
        target=_ALL,
        case="einsum/contract",
        reason="Inductor takes operands of bmm in any layout, and aoti_torch_mps_bmm_out "
        "(op_bmm.mm) refuses a transposed first one.",
        link=_RUNTIME + "ops/op_bmm.mm",
        stage="lower",
        error="are not exactly those of a contiguous tensor [refusal]",
    ),
    Limitation(
        target=_ALL,
        case="mm/int32",
        reason="MetalPartitioner takes matrix products of any dtype, aoti_torch_mps_mm_out "
        "(op_mm.mm) computes float32 and bfloat16.",
        link=_RUNTIME + "ops/op_mm.mm",
        stage="lower",
        error="self dtype int32 is not bfloat16 or float32 [refusal]",
    ),
    # Tensors that the runtime does not have
    Limitation(
        target=_ALL,
        case="_to_copy/fp32_to_fp16*",
        reason="MetalPartitioner takes casts to any dtype; validate_dtype (shims/utils.cpp) "
        "refuses tensors of float16.",
        link=_RUNTIME + "shims/utils.cpp",
        stage="lower",
        error="dtype float16 is none of",
        shown_as=Status.UNSUPPORTED,
    ),
    Limitation(
        target=_ALL,
        case="_to_copy/fp32_to_int8|_to_copy/int32_to_int8_wraps",
        reason="MetalPartitioner takes casts to any dtype; validate_dtype (shims/utils.cpp) "
        "refuses tensors of int8.",
        link=_RUNTIME + "shims/utils.cpp",
        stage="lower",
        error="dtype int8 is none of",
        shown_as=Status.UNSUPPORTED,
    ),
    Limitation(
        target=_ALL,
        case="*/empty|mm/empty_inner_dim|repeat/zero_times|slice_copy/to_empty"
        "|sum/empty_dim_gives_zeros",
        reason="metal_allocate_buffer and metal_buffer_nocopy (shims/et_metal.mm) make no buffer "
        "of 0 bytes, so a tensor without elements cannot be an input, a result or a view.",
        link=_RUNTIME + "shims/et_metal.mm",
        stage="lower",
        error="leave no byte",
        shown_as=Status.UNSUPPORTED,
    ),
]
