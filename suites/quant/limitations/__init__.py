"""Limitations of the integer suite, by the component with the cause."""

from __future__ import annotations

from harness import Limitation
from suites.known import copy_to_vgf
from suites.quant.limitations.arm import ARM
from suites.quant.limitations.cortex_m import CORTEX_M
from suites.quant.limitations.openvino import OPENVINO
from suites.quant.limitations.several import SEVERAL
from suites.quant.limitations.xnnpack import FILTERED_CONVOLUTION, XNNPACK

__all__ = ["FILTERED_CONVOLUTION", "LIMITATIONS"]

LIMITATIONS: list[Limitation] = [*SEVERAL, *XNNPACK, *ARM, *CORTEX_M, *OPENVINO]
LIMITATIONS += copy_to_vgf(LIMITATIONS)
