"""Known issues with the signs by which ``conform check`` recognises them in any model.

Those that need an operator, arguments or a layout stand in a module for each backend; those whose
error says it all follow from the limitations of the suites (``derive.py``).
"""

from __future__ import annotations

from harness import KnownIssue
from suites.known_issues.derive import derived
from suites.known_issues.metal import METAL
from suites.known_issues.mlx import MLX
from suites.known_issues.runtime import RUNTIME
from suites.known_issues.tosa import TOSA
from suites.known_issues.xnnpack import XNNPACK

ISSUES: list[KnownIssue] = [*XNNPACK, *METAL, *MLX, *TOSA, *RUNTIME, *derived()]
"""All of them; those that say more of the node come first."""
