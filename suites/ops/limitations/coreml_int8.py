"""Limitations of CoreML's quantizer, and of the conversion of quantized programs."""

from __future__ import annotations

from harness import Limitation
from suites.known import copy_limitation
from suites.ops.limitations.coreml import COREML

_TARGET = "coreml:int8"
_FRONTEND = (
    "https://github.com/apple/coremltools/blob/9.0/coremltools/converters/mil/frontend/"
)

_SAME_CAUSE = {
    "add/bf16": "add/bf16|convolution/2d_weight_is_input",
    "clone/to_channels_last": "_to_copy/to_channels_last",
    "convolution/1d_unbatched": "convolution/1d_unbatched|convolution/2d_unbatched",
    "add/dynamic_batch": "add/dynamic_batch|add/dynamic_broadcast|mul/dynamic_two_dims"
    "|linear/dynamic_batch",
}
"""Cases whose cause is that of a case on ``coreml:fp32``, by that case."""

COREML_INT8: list[Limitation] = [
    *(
        copy_limitation(COREML, "coreml:fp32", known, cases, target=_TARGET)
        for known, cases in _SAME_CAUSE.items()
    ),
    Limitation(
        target=_TARGET,
        case="add/int32|add/int64_number|add/uint8_wraps|add/int32_to_fp32|mul/int32"
        "|mul/bool_mask|arange/end|arange/start_step|full/int64",
        reason="annotate_binary_op_act_pattern (quantizer/_coreml_quantizer_utils.py) does not ask "
        "for the dtype of an operand: integers and bools get a FakeQuantize, which takes floats "
        "only.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/apple/coreml/quantizer/"
        "_coreml_quantizer_utils.py",
        stage="quantize",
        error="fake_quantize_tensor_cachemask_kernel_type_handling",
    ),
    Limitation(
        target=_TARGET,
        case="add/fp16|mul/fp16|_to_copy/computed_in_fp16|convolution/2d_fp16",
        reason="_quantize_general (quantization_ops.py) passes the scale as float32 beside a "
        "float16 input, and the MIL operation wants one dtype. Workaround: convert a float32 "
        "module with compute_precision FLOAT16.",
        link=_FRONTEND + "torch/quantization_ops.py",
        stage="lower",
        error="the named input `scale` must have the same data type",
    ),
    Limitation(
        target=_TARGET,
        case="full/shape",
        reason="_construct_constexpr_dequant_op (_utils.py) stores a constant whose codes are 0 "
        "to 15 in 4 bits, and converts the zero point to the same type, which is 128 for quint8.",
        link=_FRONTEND + "_utils.py",
        stage="lower",
        error="To pack elements into 4-bit, the max value is 15, but got 128",
    ),
]
