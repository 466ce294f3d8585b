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
        target="coreml:int8",
    ),
]
