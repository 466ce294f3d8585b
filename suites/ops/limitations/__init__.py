"""Known gaps of the operator suite, by where their cause lies."""

from __future__ import annotations

from harness.limitation import Limitation
from suites.ops.limitations.runtime import RUNTIME
from suites.ops.limitations.tosa import TOSA
from suites.ops.limitations.xnnpack import XNNPACK

LIMITATIONS: list[Limitation] = [*RUNTIME, *XNNPACK, *TOSA]
