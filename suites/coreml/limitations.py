"""Limitations of the suites for CoreML."""

from __future__ import annotations

from harness import Limitation, Status

_SOURCE = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/apple/coreml/"
_OPS = (
    "https://github.com/apple/coremltools/blob/9.0/coremltools/converters/mil/frontend/torch/ops.py"
)
_CONVERTER = (
    "https://github.com/apple/coremltools/blob/9.0/coremltools/converters/mil/frontend/torch/"
    "converter.py"
)
_DEFS = "https://github.com/apple/coremltools/blob/9.0/coremltools/converters/mil/mil/ops/defs/"


def _folded(case: str, reason: str, link: str) -> Limitation:
    """Make the limitation of constants that coremltools folds to wrong numbers, silently."""
    return Limitation(
        target="coreml:*",
        case=case,
        reason=reason,
        link=link,
        stage="compare",
        outcome=Status.MISMATCH,
    )


LIMITATIONS: list[Limitation] = [
    Limitation(
        target="coreml:fp16",
        case="_log_softmax/half_one_dominates",
        reason="log_softmax (ops.py) is the logarithm of a softmax, which is 0 in float16 where a "
        "logit is 18 or more below the largest.",
        link="https://github.com/apple/coremltools/issues/2728",
        stage="compare",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="coreml:fp32",
        case="rms_norm/one_large_element",
        reason="rms_norm (ops.py) divides by the largest absolute value before it adds epsilon, "
        "and multiplies by it afterwards: epsilon is multiplied by its square.",
        link="https://github.com/apple/coremltools/issues/2821",
        stage="compare",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="coreml:*",
        case="state/two_buffers",
        reason="tag_mutated_buffer tags a buffer whose new value is the old value of another one, "
        "and exir refuses a tagged buffer that the program returns as well.",
        link=_SOURCE + "partition/coreml_partitioner.py",
        stage="lower",
        error="is tagged with (tag0) but has user (output)",
    ),
    Limitation(
        target="coreml:*",
        case="state/stored_at_indices",
        reason="index_put (ops.py) stacks the indices after it has squeezed some of them: their "
        "ranks differ.",
        link=_OPS,
        stage="lower",
        error="has rank 1 != other inputs rank 0",
    ),
    Limitation(
        target="coreml:fp32",
        case="state/rounded_to_half",
        reason="Core ML has float16 states only. The converter casts a float32 buffer to float16 "
        "without an error, whatever compute_precision says.",
        link=_CONVERTER,
        stage="compare",
        outcome=Status.MISMATCH,
    ),
    _folded(
        case="scatter_add/constants|scaled_dot_product_attention/constants_and_mask",
        reason="coremltools computes operations on constants while it converts. value_inference "
        "of scatter_along_axis does not read the mode, and that of scaled_dot_product_attention "
        "does not read a mask of the program's input.",
        link="https://github.com/apple/coremltools/pull/2802",
    ),
    _folded(
        case="argsort/constants_descending|topk/uint8_constants",
        reason="value_inference of argsort and topk sorts the negated constants. The negation of "
        "the least integer and of unsigned integers wraps.",
        link=_DEFS + "iOS15/tensor_operation.py",
    ),
    _folded(
        case="logsumexp/infinite_constants",
        reason="value_inference of reduce_log_sum_exp subtracts the largest constant, which is NaN "
        "for an infinite one.",
        link=_DEFS + "iOS15/reduction.py",
    ),
    _folded(
        case="softplus/large_constants_beta",
        reason="value_inference of softplus_parametric is log(1 + exp(x)), which overflows.",
        link=_DEFS + "iOS15/activation.py",
    ),
    _folded(
        case="trace/constant_infinite_beside",
        reason="value_inference of band_part multiplies constants outside of the band by 0, which "
        "is NaN for infinite ones.",
        link=_DEFS + "iOS15/tensor_operation.py",
    ),
    _folded(
        case="hardswish/constants_read_twice",
        reason="value_inference of thresholded_relu writes into its constant, which other "
        "operations read. hardswish (ops.py) begins with thresholded_relu.",
        link="https://github.com/apple/coremltools/pull/2795",
    ),
    _folded(
        case="matmul/constant_arange",
        reason="arange (ops.py) of an exported program ignores the dtype and returns integers, and "
        "matmul of two constants has the dtype of the first one (docs/findings.md). Workaround: "
        "`torch.arange(n) * 1.0`.",
        link=_OPS,
    ),
    Limitation(
        target="coreml:*",
        case="prelu/rows_by_column",
        reason="prelu (ops.py) gives a matrix a third dimension, and MIL's prelu of three "
        "dimensions takes one slope only. Workaround: `torch.where(x > 0, x, slopes * x)`.",
        link=_DEFS + "iOS15/activation.py",
        stage="lower",
        error="only supported when all the values of alpha are same",
    ),
    Limitation(
        target="coreml:*",
        case="view_copy/six_dimensions",
        reason="CoreMLPartitioner asks coremltools only whether it has a conversion of the "
        "operator (is_torch_fx_node_supported). MIL has tensors of at most five dimensions.",
        link="https://github.com/apple/coremltools/blob/9.0/coremltools/converters/mil/mil/"
        "program.py",
        stage="lower",
        error="Core ML only supports tensors with rank <= 5",
    ),
    Limitation(
        target="coreml:*",
        case="squeeze/constant_to_number",
        reason="value_inference of squeeze to rank 0 takes the first row of the constant instead "
        "of its element.",
        link="https://github.com/apple/coremltools/pull/2803",
        stage="lower",
        error="Types should have zero-rank ndarray input",
    ),
    Limitation(
        target="coreml:*",
        case="select_copy/constants_fp16",
        reason="value_inference of slice_by_index makes numbers of int32 and float32 only.",
        link=_DEFS + "iOS15/tensor_transformation.py",
        stage="lower",
        error="Unable to convert type float16",
    ),
]
