"""Known gaps of torch's own samples, by where their cause lies. Most have the cause of a case of
ours, and say what that says."""

from __future__ import annotations

from harness import Limitation
from suites.opinfo.limitations.metal import METAL
from suites.opinfo.limitations.mlx import MLX
from suites.opinfo.limitations.native import NATIVE
from suites.opinfo.limitations.tosa import TOSA

LIMITATIONS: list[Limitation] = [*NATIVE, *TOSA, *MLX, *METAL]
