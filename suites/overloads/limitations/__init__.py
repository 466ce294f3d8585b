"""Limitations of calls of overloads, by the component with the cause.

One applies to all calls of a group. The overloads in ``APART`` (suites/overloads/calls.py) have a
case for each call instead.
"""

from __future__ import annotations

from harness import Limitation
from suites.known import copy_limitation, copy_to_vgf
from suites.ops.limitations import LIMITATIONS as OPERATORS
from suites.overloads.limitations.mlx import MLX
from suites.overloads.limitations.native import NATIVE
from suites.overloads.limitations.tosa import TOSA
from suites.overloads.limitations.tosa_int import TOSA_INT
from suites.vgf.limitations import LIMITATIONS as VGF

LIMITATIONS: list[Limitation] = [*NATIVE, *TOSA, *TOSA_INT, *MLX]
LIMITATIONS += [
    *copy_to_vgf(LIMITATIONS, without="overloads/tanh_.default/float32"),
    copy_limitation(
        VGF,
        "vgf:fp",
        "grid_sampler_2d/8_bilinear_zeros",
        "overloads/grid_sampler_2d.default/float32",
    ),
    copy_limitation(
        OPERATORS, "vgf:fp", "sinh/near_zero", "overloads/sinh.default/float32", seed=0
    ),
]
