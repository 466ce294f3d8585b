"""Limitations of trained networks. Cases of other suites show each cause in a small program."""

from __future__ import annotations

from harness import Limitation, Status
from suites.coreml.limitations import LIMITATIONS as COREML
from suites.cortex_m.limitations import LIMITATIONS as CORTEX_M
from suites.half.limitations import LIMITATIONS as HALF
from suites.known import copy_limitation
from suites.metal.limitations import LIMITATIONS as METAL
from suites.models.limitations import LIMITATIONS as MODELS
from suites.ops.limitations import LIMITATIONS as OPS
from suites.quant.limitations import LIMITATIONS as QUANT
from suites.tosa.limitations import LIMITATIONS as TOSA

_CONVOLUTIONS = "mtcnn_*|crepe_tiny/*|efficientnet_lite0/*"

LIMITATIONS: list[Limitation] = [
    copy_limitation(MODELS, "metal:fp32", "resnet/tiny", _CONVOLUTIONS, target="metal:*"),
    copy_limitation(
        METAL,
        "metal:fp32",
        "scaled_dot_product_attention/head_dim_32",
        "minilm/*",
        target="metal:*",
        shown_as=Status.UNSUPPORTED,
    ),
    copy_limitation(MODELS, "metal:fp32", "siglip/tiny", "resemblyzer/*", target="metal:*"),
    copy_limitation(
        MODELS, "metal:fp32", "mobilebert/tiny", "silero_vad/*",
        target="metal:*",
        reason="An LSTM writes its states through views of one tensor. "
        "aoti_torch__reinterpret_tensor (shims/memory.cpp) copies a view with a storage offset to "
        "a new Metal buffer at once, before the GPU has written the memory.",
    ),
    copy_limitation(
        OPS, "xnnpack:fp32", "prelu/shared", "mtcnn_onet/*",
        target="xnnpack:fp32|xnnpack:fp16|xnnpack:bf16|xnnpack:int8|xnnpack:int8_per_tensor",
    ),
    copy_limitation(
        OPS, "cortex_m:int8", "prelu/per_channel", "mtcnn_*", target="cortex_m:*"
    ),
    copy_limitation(
        COREML, "coreml:fp32", "prelu/rows_by_column", "mtcnn_onet/*", target="coreml:int8"
    ),
    copy_limitation(
        CORTEX_M, "cortex_m:int8", "cortex_m/pad_behind_pool", "crepe_tiny/*",
        target="cortex_m:*",
        stage="lower",
        error="Kernel size can't be greater than actual input size",
        outcome=Status.FAILED,
    ),
    copy_limitation(
        QUANT, "cortex_m:int8", "int_conv2d/channel_of_zeros", "efficientnet_lite0/*",
        target="cortex_m:*",
        error="rounding the values of channel",
    ),
    copy_limitation(
        HALF, "xnnpack:bf16", "half_conv/2d",
        f"{_CONVOLUTIONS}|fcpe/*|silero_vad/*",
        error="xnn_status_invalid_parameter",
    ),
    copy_limitation(HALF, "xnnpack:fp16", "half_norm/wide_layer", "minilm/*|fcpe/*"),
    copy_limitation(
        TOSA, "tosa:int16", "int16_add/one_outlier", f"{_CONVOLUTIONS}|fcpe/*"
    ),
    copy_limitation(TOSA, "tosa:int16", "int16_rsqrt/small_variances", "minilm/*"),
]  # fmt: skip
