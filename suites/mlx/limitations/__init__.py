"""Limitations of the suites for MLX, by the component with the cause."""

from __future__ import annotations

from harness import Limitation
from suites.mlx.limitations.handlers import HANDLERS
from suites.mlx.limitations.patterns import PATTERNS
from suites.mlx.limitations.programs import PROGRAMS
from suites.mlx.limitations.releases import RELEASES

LIMITATIONS: list[Limitation] = [*RELEASES, *HANDLERS, *PATTERNS, *PROGRAMS]
