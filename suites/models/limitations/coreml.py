"""Limitations of the CoreML backend."""

from __future__ import annotations

from harness import Limitation
from suites.coreml.limitations import LIMITATIONS as COREML_SUITE
from suites.known import copy_limitation
from suites.ops.limitations import LIMITATIONS as OPS

COREML: list[Limitation] = [
    # Positions of an attention mask, products of conditions, and a cache's position are computed
    # with add and mul.
    copy_limitation(
        OPS,
        "coreml:int8",
        "add/int32",
        "llama/decode|wav2vec2/tiny|moonshine/tiny|bert/tiny|mobilebert/tiny|t5/tiny|deit/tiny"
        "|vit/tiny|dinov2/tiny|rt_detr/night",
    ),
    copy_limitation(
        COREML_SUITE,
        "coreml:fp32",
        "view_copy/six_dimensions",
        "rf_detr/tiny",
        target="coreml:fp32|coreml:int8",
    ),
    # Caches and states of the decoders.
    copy_limitation(
        COREML_SUITE,
        "coreml:fp32",
        "state/rounded_to_half",
        "llama/decode_positioned|lfm2/decode_positioned|voxtral/decode|mamba/decode",
    ),
    copy_limitation(OPS, "coreml:fp32", "gelu/tanh", "gemma3/tiny|siglip/tiny"),
    Limitation(
        target="coreml:fp32",
        case="llama/decode|whisper/decode",
        reason="A buffer of integers, the length of the cache, becomes a state of float16. The "
        "pass canonicalize_inplace_pattern looks for an update that it has moved.",
        link="https://github.com/apple/coremltools/blob/9.0/coremltools/converters/mil/mil/passes/"
        "defs/optimize_state.py",
        stage="lower",
        error="coreml_update_state",
    ),
    Limitation(
        target="coreml:fp32",
        case="rt_detr/night",
        reason="arange (ops.py) of an exported program ignores the dtype and returns integers, "
        "which matmul refuses beside floats (docs/findings.md). Workaround: "
        "`torch.arange(n) * 1.0`.",
        link="https://github.com/apple/coremltools/blob/9.0/coremltools/converters/mil/frontend/"
        "torch/ops.py",
        stage="lower",
        error="their dtype need to match",
    ),
]
