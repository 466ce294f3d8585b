"""Limitations of OpInfo samples, by the component with the cause.

Most have the same cause as a case of another suite, and copy its limitation.
"""

from __future__ import annotations

from harness import Limitation
from suites.opinfo.limitations.metal import METAL
from suites.opinfo.limitations.mlx import MLX
from suites.opinfo.limitations.native import NATIVE
from suites.opinfo.limitations.tosa import TOSA

LIMITATIONS: list[Limitation] = [*NATIVE, *TOSA, *MLX, *METAL]
