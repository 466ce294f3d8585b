"""Limitations of the quick suite."""

from __future__ import annotations

from harness import Limitation
from suites.known import copy_limitation, copy_to_vgf
from suites.signatures.limitations import LIMITATIONS as OF_SIGNATURES

LIMITATIONS: list[Limitation] = [
    copy_limitation(OF_SIGNATURES, "tosa:int", "state/from_zero", "quick/state"),
]
LIMITATIONS += copy_to_vgf(LIMITATIONS)
