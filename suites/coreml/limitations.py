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
]
