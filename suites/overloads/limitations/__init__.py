"""Limitations of calls of overloads, by the component with the cause.

One applies to all calls of a group. The overloads in ``APART`` (suites/overloads/calls.py) have a
case for each call instead.
"""

from __future__ import annotations

from harness import Limitation
from suites.overloads.limitations.mlx import MLX
from suites.overloads.limitations.native import NATIVE
from suites.overloads.limitations.tosa import TOSA
from suites.overloads.limitations.tosa_int import TOSA_INT

LIMITATIONS: list[Limitation] = [*NATIVE, *TOSA, *TOSA_INT, *MLX]
