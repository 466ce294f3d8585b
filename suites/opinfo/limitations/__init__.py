"""Limitations of OpInfo samples, by the component with the cause.

Most have the same cause as a case of another suite, and copy its limitation.
"""

from __future__ import annotations

from harness import Limitation
from suites.known import copy_limitation, copy_to_vgf
from suites.opinfo.limitations.metal import METAL
from suites.opinfo.limitations.mlx import MLX
from suites.opinfo.limitations.native import NATIVE
from suites.opinfo.limitations.tosa import TOSA
from suites.ops.limitations import LIMITATIONS as OPERATORS
from suites.vgf.limitations import LIMITATIONS as VGF

LIMITATIONS: list[Limitation] = [*NATIVE, *TOSA, *MLX, *METAL]
LIMITATIONS += [
    # The emulation layer computes TANH by a formula of its own, not by the reference model.
    *copy_to_vgf(LIMITATIONS, without="opinfo/tanh/*"),
    copy_limitation(
        VGF,
        "vgf:fp",
        "grid_sampler_2d/8_bilinear_zeros",
        "opinfo/grid_sampler_2d/*|opinfo/grid_sample/float32_0|opinfo/grid_sample/float32_2",
    ),
    copy_limitation(OPERATORS, "vgf:fp", "sqrt/special_values", "opinfo/sqrt/float32_0", seed=0),
]
