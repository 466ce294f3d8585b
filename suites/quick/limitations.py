"""Known gaps with the cases of this package."""

from __future__ import annotations

from harness import Limitation
from suites.known import as_known
from suites.signatures.limitations import LIMITATIONS as OF_SIGNATURES

LIMITATIONS: list[Limitation] = [
    as_known(OF_SIGNATURES, "tosa:int", "state/from_zero", "quick/state"),
]
