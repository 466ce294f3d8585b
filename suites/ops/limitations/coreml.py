"""Limitations in the CoreML backend: executorch's partitioner and coremltools' converter."""

from __future__ import annotations

from harness import Limitation, Status

_FP32 = "coreml:fp32"
_FLOATS = "coreml:fp32|coreml:fp16"
_SOURCE = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/apple/coreml/"
_PARTITIONER = _SOURCE + "partition/coreml_partitioner.py"
_OPS = (
    "https://github.com/apple/coremltools/blob/9.0/coremltools/converters/mil/frontend/torch/ops.py"
)
_TYPES = (
    "https://github.com/apple/coremltools/blob/9.0/coremltools/converters/mil/frontend/torch/"
    "utils.py"
)
_DEFS = "https://github.com/apple/coremltools/blob/9.0/coremltools/converters/mil/mil/ops/defs/"
_PASSES = "https://github.com/apple/coremltools/blob/9.0/coremltools/converters/mil/mil/passes/defs/"

_NO_CHECK = (
    "CoreMLPartitioner asks coremltools only whether it has a conversion of the operator "
    "(is_torch_fx_node_supported), not whether the conversion takes these arguments"
)
_EPSILON_OF_INVERSE = (
    "reciprocal (ops.py) makes MIL's inverse with its default epsilon, and the model computes "
    "1 / (x + 0.0001)."
)


def _mismatch(
    case: str, reason: str, target: str = _FLOATS, link: str = _OPS, seed: int | None = None
) -> Limitation:
    """Make the limitation of cases that a conversion of coremltools makes wrong, silently."""
    return Limitation(
        target=target,
        case=case,
        reason=reason,
        link=link,
        stage="compare",
        outcome=Status.MISMATCH,
        seed=seed,
    )


COREML: list[Limitation] = [
    # Dtypes and layouts
    Limitation(
        target=_FLOATS,
        case="add/bf16|mm/bf16|_to_copy/fp32_to_bf16_and_back|_to_copy/int8_to_int32|neg/int8|"
        "add/uint8_wraps|_to_copy/uint8_to_fp32|cat/uint8|bitwise_not/uint8",
        reason=f"{_NO_CHECK}: inputs of bfloat16, int8 and uint8 are not in "
        "TORCH_DTYPE_TO_MIL_DTYPE, so that the conversion ends with a KeyError.",
        link=_TYPES,
        stage="lower",
        error="KeyError: torch.",
    ),
    Limitation(
        target=_FLOATS,
        case="_to_copy/fp32_to_int8|_to_copy/int32_to_int8_wraps",
        reason="The partitioner delegates casts to int8. get_data_type of the delegate "
        "(coreml_backend_delegate.mm) has no int8 (ScalarType::Char), so that the runtime cannot "
        "pass the output.",
        link=_SOURCE + "runtime/delegate/coreml_backend_delegate.mm",
        stage="run",
        error="is torch.int8: the delegate passes no such tensor",
    ),
    Limitation(
        target=_FLOATS,
        case="clone/to_channels_last|_to_copy/to_channels_last|_to_copy/to_channels_last_and_dtype",
        reason=f"{_NO_CHECK}. Those of _clone_dim_order and _to_dim_order_copy refuse every dim "
        "order but the contiguous one.",
        link=_SOURCE + "compiler/torch_ops.py",
        stage="lower",
        or_fails=(("lower", "Core ML does not support non-contiguous dim order"),),
        error="Only contiguous memory format is supported in CoreML",
    ),
    Limitation(
        target=_FLOATS,
        case="bitwise_and/int32",
        reason=f"{_NO_CHECK}. MIL has no bitwise operations; bitwise_and takes bools only.",
        link=_OPS,
        stage="lower",
        error="only supports boolean input",
    ),
    Limitation(
        target=_FLOATS,
        case="relu/int32|sigmoid/int32_promotes|exp/int64_promotes|sqrt/int32_promotes|"
        "pixel_shuffle/int64|minimum/bool",
        reason=f"{_NO_CHECK}. It passes the integers on, and the MIL operation takes floats (and, "
        "for minimum, int32) only.",
        link=_OPS,
        stage="lower",
        error="expects tensor or scalar of dtype from type domain",
    ),
    Limitation(
        target=_FLOATS,
        case="native_layer_norm/fp16",
        reason="layer_norm (ops.py) passes epsilon as float32 beside a float16 gamma, and the MIL "
        "operation wants one dtype. Workaround: convert a float32 module with compute_precision "
        "FLOAT16.",
        link=_OPS,
        stage="lower",
        error="the named input `epsilon` must have the same data type",
    ),
    Limitation(
        target=_FLOATS,
        case="addmm/beta_zero_ignores_bias",
        reason="addmm (ops.py) multiplies the bias by the Python integer beta without promoting "
        "its dtype.",
        link=_OPS,
        stage="lower",
        error="must have the same data type as the named input `x`",
    ),
    # Arguments that conversions do not take
    Limitation(
        target=_FLOATS,
        case="nonzero/masked_select",
        reason="The partitioner delegates the assertions on a size alone. That partition has no "
        "outputs, and torch's insert_subgm raises an error.",
        link=_PARTITIONER,
        stage="lower",
        error="Cannot determine insertion point",
    ),
    Limitation(
        target=_FLOATS,
        case="scatter/dim0|gather/smaller_index",
        reason=f"{_NO_CHECK}. gather_along_axis and scatter_along_axis of MIL want indices of the "
        "data's shape in every other dimension; torch takes smaller ones.",
        link=_DEFS + "iOS15/scatter_gather.py",
        stage="lower",
        error="AssertionError",
    ),
    Limitation(
        target=_FLOATS,
        case="matmul/dot",
        reason="matmul (ops.py) makes a MIL matmul of two vectors, whose type inference reads a "
        "second dimension. Workaround: `torch.dot`.",
        link=_DEFS + "iOS15/linear.py",
        stage="lower",
        error="IndexError: list index out of range",
    ),
    Limitation(
        target=_FLOATS,
        case="searchsorted/between",
        reason=f"{_NO_CHECK}. searchsorted (ops.py) takes a sequence and values of one rank only.",
        link=_OPS,
        stage="lower",
        error="Not support `searchsorted` op with different ranks",
    ),
    Limitation(
        target=_FLOATS,
        case="meshgrid/ij",
        reason="CoreML is asked to keep aten.meshgrid whole. Its results in the exported program "
        "are views with stride 0, and exir has no dim order for these.",
        link=_PARTITIONER,
        stage="to_executorch",
        error="0 in strides is not supported for ExecuTorch",
    ),
    Limitation(
        target=_FLOATS,
        case="max_pool2d_with_indices/dilation",
        reason=f"{_NO_CHECK}. MIL's max_pool has no dilation.",
        link=_OPS,
        stage="lower",
        error="does not support dilation > 1",
    ),
    Limitation(
        target=_FLOATS,
        case="max_pool2d_with_indices/plain|max_pool2d_with_indices/unbatched|"
        "max_pool2d_with_indices/indices|max_pool3d_with_indices/plain",
        reason="_max_pool (ops.py) wants the argument stride, which a program leaves out where it "
        "is the kernel size. Workaround: pass stride.",
        link=_OPS,
        stage="lower",
        error="got 2 input(s), expected minimum 3 inputs",
    ),
    Limitation(
        target=_FLOATS,
        case="rms_norm/no_weight_default_eps",
        reason="rms_norm (ops.py) wants four arguments, and a program leaves out the weight and "
        "the epsilon where they have their defaults.",
        link=_OPS,
        stage="lower",
        error="(rms_norm) got 2 input(s), expected [4]",
    ),
    Limitation(
        target=_FLOATS,
        case="cosine_similarity/last_dim",
        reason="cosine_similarity (ops.py) wants four arguments, and a program leaves out the "
        "epsilon where it has its default. Workaround: pass another one, `eps=2e-8`.",
        link=_OPS,
        stage="lower",
        error="(cosine_similarity) got 3 input(s), expected [4]",
    ),
    Limitation(
        target=_FLOATS,
        case="avg_pool2d/divisor|avg_pool2d/ceil_mode_divisor",
        reason=f"{_NO_CHECK}. MIL's avg_pool has no other divisor.",
        link=_OPS,
        stage="lower",
        error="divisor_override is not supported",
    ),
    Limitation(
        target=_FLOATS,
        case="repeat/zero_times",
        reason=f"{_NO_CHECK}. MIL's tile repeats once or more.",
        link=_DEFS + "iOS15/tensor_operation.py",
        stage="lower",
        error="All entries of reps parameter must be greater than 0",
    ),
    Limitation(
        target=_FLOATS,
        case="convolution/1d_unbatched|convolution/2d_unbatched|avg_pool2d/unbatched",
        reason="_convolution and _avg_pool (ops.py) take the first dimension for the batch, so "
        "that an input without one fails. Workaround: add a dimension, `x[None]`.",
        link=_OPS,
        stage="lower",
        error="!= weight[1] (3)",
        or_fails=(("lower", "Input strides="), ("lower", "must all be the same length")),
    ),
    Limitation(
        target=_FLOATS,
        case="lerp/number",
        reason="lerp decomposes to aten.full of shape [], for which full (ops.py) makes a concat "
        "of no values. Workaround: `x + weight * (y - x)`.",
        link=_DEFS + "iOS15/tensor_operation.py",
        stage="lower",
        error="got 0 values",
    ),
    Limitation(
        target=_FLOATS,
        case="index_put/constant_mid|index_put/broadcast_value|index_put/adjacent",
        reason="index_put (ops.py) stacks the indices after it has squeezed some of them: their "
        "ranks differ.",
        link=_OPS,
        stage="lower",
        error="has rank 1 != other inputs rank 0",
    ),
    Limitation(
        target=_FLOATS,
        case="view_copy/empty",
        reason=f"{_NO_CHECK}. MIL's reshape has no dimensions of size 0.",
        link=_DEFS + "iOS15/tensor_transformation.py",
        stage="lower",
        error="Invalid target shape in `reshape` op",
    ),
    Limitation(
        target=_FLOATS,
        case="col2im/overlapping",
        reason=f"{_NO_CHECK}. col2im (ops.py) takes blocks that do not overlap only.",
        link=_OPS,
        stage="lower",
        error="Only supports stride >= kernel_size",
    ),
    Limitation(
        target=_FLOATS,
        case="constant_pad_nd/negative_crops",
        reason=f"{_NO_CHECK}. MIL's pad takes no negative widths, which crop in ATen. "
        "Workaround: slice the tensor.",
        link=_DEFS + "iOS15/tensor_operation.py",
        stage="lower",
        error="pad must be non-negative integer",
    ),
    Limitation(
        target=_FLOATS,
        case="scaled_dot_product_attention/grouped_queries",
        reason="scaled_dot_product_attention (ops.py) ignores enable_gqa, and broadcasts heads "
        "only if one of the operands has one head.",
        link=_OPS,
        stage="lower",
        error="query, key, value must have a same batch dimension",
    ),
    Limitation(
        target=_FLOATS,
        case="mul/dynamic_two_dims|add/dynamic_batch|view_copy/dynamic_flatten|"
        "add/dynamic_broadcast|linear/dynamic_batch|convolution/dynamic_batch",
        reason="The range of a dynamic dimension in the model begins at 2 although the program "
        "declares 1: the partition's program has the range of torch's shape environment, which "
        "assumes 2 or more while it traces, and coremltools writes that range to the model. CoreML "
        "refuses other sizes.",
        link="https://github.com/apple/coremltools/blob/9.0/coremltools/converters/mil/frontend/"
        "torch/exir_utils.py",
        stage="run",
        error="the program refuses",
    ),
    # Other functions than torch's
    _mismatch(
        target=_FP32,
        case="reciprocal/2d",
        reason=_EPSILON_OF_INVERSE,
        link=_DEFS + "iOS15/elementwise_unary.py",
    ),
    _mismatch(
        case="reciprocal/special_values",
        reason=_EPSILON_OF_INVERSE,
        link=_DEFS + "iOS15/elementwise_unary.py",
    ),
    _mismatch(
        target=_FP32,
        case="rsqrt/special_values",
        reason="rsqrt (ops.py) makes MIL's rsqrt with its default epsilon, and the model computes "
        "1 / sqrt(x + 1e-12).",
        link=_DEFS + "iOS15/elementwise_unary.py",
    ),
    _mismatch(
        target=_FP32,
        case="log/special_values",
        reason="log (ops.py) makes MIL's log with its default epsilon, and the model computes "
        "log(x + 1e-45): the logarithm of 0 is -103.3.",
        link=_DEFS + "iOS15/elementwise_unary.py",
    ),
    _mismatch(
        case="_log_softmax/large_logits",
        reason="log_softmax (ops.py) is the logarithm of a softmax, which underflows to 0 where a "
        "logit is 104 or more below the largest; the logarithm of 0 is then -103.3.",
        link="https://github.com/apple/coremltools/issues/2728",
    ),
    _mismatch(
        case="log1p/near_zero|expm1/near_zero",
        reason="log1p and expm1 (ops.py) are log(x + 1) and exp(x) - 1, which cancel for x near 0.",
    ),
    _mismatch(
        case="expm1/3d",
        reason="expm1 (ops.py) is exp(x) - 1, which cancels for x near 0.",
        seed=0,
    ),
    _mismatch(
        target="coreml:fp16",
        case="celu/alpha",
        reason="celu decomposes to expm1, which is exp(x) - 1 (ops.py) and cancels for x near 0.",
        seed=0,
    ),
    _mismatch(
        target=_FP32,
        case="rms_norm/weight",
        reason="rms_norm (ops.py) divides by the largest absolute value before it adds epsilon, "
        "and multiplies by it afterwards: epsilon is multiplied by its square.",
        link="https://github.com/apple/coremltools/issues/2821",
    ),
    _mismatch(
        target=_FP32,
        case="native_group_norm/groups",
        reason="The pass fuse_elementwise_to_batchnorm turns the product with the weight and the "
        "sum with the bias into a batch_norm of mean 0 and variance 1, whose epsilon of 1e-5 "
        "divides the result by sqrt(1 + 1e-5).",
        link=_PASSES + "optimize_elementwise_binary.py",
    ),
    _mismatch(
        target=_FP32,
        case="gelu/tanh",
        reason="gelu (ops.py) reads approximate as a positional argument. In an exported program "
        "it is a keyword argument, and the model computes the exact gelu.",
    ),
    _mismatch(
        case="rsub/alpha",
        reason="sub (ops.py) reads alpha as a positional argument. In an exported program it is a "
        "keyword argument and is lost; the partitioner refuses alpha for add and sub, not for "
        "rsub.",
    ),
    _mismatch(
        case="var/all",
        reason="var.correction (ops.py) takes an absent correction for none; torch's default is 1. "
        "The model computes the biased variance.",
    ),
    _mismatch(
        case="fill/from_tensor",
        reason="fill (ops.py) reads the value of its second argument at conversion. A tensor that "
        "the program computes or gets has none, and the model returns zeros.",
    ),
    _mismatch(
        target=_FP32,
        case="sum/out_dtype",
        reason="mean and its siblings (ops.py) do not read the keyword argument dtype: the model "
        "sums in the input's dtype.",
    ),
    _mismatch(
        case="any/fp32_keepdim",
        reason="any (ops.py) casts floats to int32 before it takes the maximum: values between -1 "
        "and 1 count as false.",
    ),
    _mismatch(
        case="full_like/to_int32",
        reason="full_like (ops.py) does not read the argument dtype, and the result has the dtype "
        "of the input. Workaround: `torch.full(x.shape, 2, dtype=torch.int32)`.",
    ),
    _mismatch(
        case="_to_copy/beyond_int32_and_back",
        reason="Core ML has no int64, and to (ops.py) casts to int32 without a warning. "
        "Workaround: `.trunc()` instead of the cast.",
    ),
    _mismatch(
        case="atan2/axes",
        reason="atan2 (ops.py) adds pi in the second and third quadrant only if y is not 0: for "
        "y = 0 and x < 0 it returns 0 instead of pi.",
    ),
    _mismatch(
        case="scaled_dot_product_attention/bool_mask",
        reason="ones_like (ops.py) returns float32 for a bool tensor. The mask, joined with it, "
        "becomes a float mask, which is added to the scores.",
    ),
    Limitation(
        target="coreml:fp16",
        case="convolution/2d_channels_last_weight",
        reason="The planned output is channels-last float32, and the model's is float16. Where "
        "the dtypes differ the delegate copies row-major whatever the planned dim order "
        "(MemoryLayout::resize in multiarray.mm). Workaround: "
        "`model.to(memory_format=torch.contiguous_format)` before export.",
        link=_SOURCE + "runtime/delegate/multiarray.mm",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target=_FLOATS,
        case="nonzero/2d",
        reason="The exported result of nonzero is column-major, and so is the planned output. The "
        "delegate writes int64 outputs row-major whatever the planned dim order "
        "(MemoryLayout::resize in multiarray.mm).",
        link=_SOURCE + "runtime/delegate/multiarray.mm",
        stage="compare",
        error="dim order (0, 1), the program declares (1, 0)",
        outcome=Status.MISMATCH,
    ),
]
