"""Limitations of the operator suite, by the component with the cause."""

from __future__ import annotations

from harness import Limitation
from suites.ops.limitations.coreml import COREML
from suites.ops.limitations.coreml_int8 import COREML_INT8
from suites.ops.limitations.cortex_m import CORTEX_M
from suites.ops.limitations.metal import METAL
from suites.ops.limitations.mlx import MLX
from suites.ops.limitations.openvino import OPENVINO
from suites.ops.limitations.releases import RELEASES
from suites.ops.limitations.runtime import RUNTIME
from suites.ops.limitations.tosa_both import TOSA_BOTH
from suites.ops.limitations.tosa_fp import TOSA_FP
from suites.ops.limitations.tosa_int import TOSA_INT
from suites.ops.limitations.vgf import VGF
from suites.ops.limitations.xnnpack import XNNPACK

LIMITATIONS: list[Limitation] = [
    *RELEASES,  # first: where they speak, what the tested release does is another story
    *RUNTIME,
    *XNNPACK,
    *MLX,
    *METAL,
    *OPENVINO,
    *COREML,
    *COREML_INT8,
    *TOSA_BOTH,
    *TOSA_FP,
    *TOSA_INT,
    *CORTEX_M,
    *VGF,
]
