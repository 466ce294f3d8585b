"""Limitations of other backends on the programs of XNNPACK's special cases."""

from __future__ import annotations

from harness import Limitation
from suites.known import copy_limitation
from suites.ops.limitations import LIMITATIONS as OPS

LIMITATIONS: list[Limitation] = [
    copy_limitation(
        OPS, "cortex_m:int8", "slice_copy/channels_last", "cat_of_*_int", target="cortex_m:*"
    ),
]
