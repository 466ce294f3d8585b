"""Known issues, with the signs by which ``conform check`` recognises them in any model.

Issues recognised by an operator, arguments or a layout are listed in one module per backend. Issues
whose error is sufficient are derived from the limitations of the suites (``derive.py``).
"""

from __future__ import annotations

from harness import KnownIssue
from suites.known_issues.coreml import COREML
from suites.known_issues.cortex_m import CORTEX_M
from suites.known_issues.derive import derive_issues
from suites.known_issues.metal import METAL
from suites.known_issues.mlx import MLX
from suites.known_issues.runtime import RUNTIME
from suites.known_issues.tosa import TOSA
from suites.known_issues.xnnpack import XNNPACK

ISSUES: list[KnownIssue] = [
    *XNNPACK,
    *METAL,
    *MLX,
    *TOSA,
    *COREML,
    *CORTEX_M,
    *RUNTIME,
    *derive_issues(),
]
"""All known issues; the more specific ones come first."""
