"""Known gaps in the ExecuTorch export flow, runtime and portable kernels."""

from __future__ import annotations

from harness.limitation import Limitation

RUNTIME: list[Limitation] = []
