"""Programs that Arm's model converter rewrites when it converts a TOSA graph to SPIR-V."""

from __future__ import annotations

import math
from dataclasses import replace

from harness import Case
from suites.build import op, randn, values

CASES: list[Case] = [
    replace(case, targets="vgf:fp", tags=case.tags | {"nightly"})
    for case in (
        op("mul/zero_of_infinities", lambda x: x * 0.0 + 1.5,
           values((math.inf, -math.inf, math.nan, -1e30, 2.0), 10)),
        op("mul/one", lambda x: (x * 1.0).relu(), randn(4, 5)),
        op("sub/itself", lambda x: x - x + x.relu(), randn(4, 5)),
    )
]  # fmt: skip
