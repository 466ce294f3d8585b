"""Limitations of the models suite, by the component with the cause."""

from __future__ import annotations

from harness import Limitation
from suites.known import copy_to_vgf
from suites.models.limitations.coreml import COREML
from suites.models.limitations.cortex_m import CORTEX_M
from suites.models.limitations.exporter import EXPORTER
from suites.models.limitations.metal import METAL
from suites.models.limitations.mlx import MLX
from suites.models.limitations.openvino import OPENVINO
from suites.models.limitations.runtime import RUNTIME
from suites.models.limitations.tosa import TOSA
from suites.models.limitations.vgf import VGF
from suites.models.limitations.xnnpack import XNNPACK

LIMITATIONS: list[Limitation] = [
    *EXPORTER,
    *RUNTIME,
    *XNNPACK,
    *MLX,
    *METAL,
    *TOSA,
    *COREML,
    *CORTEX_M,
    *OPENVINO,
    *VGF,
]
LIMITATIONS += copy_to_vgf(LIMITATIONS)
